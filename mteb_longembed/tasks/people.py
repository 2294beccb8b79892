"""The made-up people of the passkey documents.

First and last names are drawn independently, so that a pair hardly ever belongs to a real person; no name is
a word of the filler sentences or of the query, nor a stop word.
"""

from __future__ import annotations

_FIRST = """
    Ada Alba Alden Alma Amos Anton Arlo Asta Bela Bertil Boris Bruno Calla Cara Casper Celia Clive Cora Dagny
    Dario Della Desmond Edda Elias Elsa Emrys Enid Esben Fabian Farah Felix Fiona Flora Gideon Gilda Gunnar
    Hanna Hector Hedda Hugo Ida Igor Ilse Imogen Ines Ingrid Ivo Jasmin Joel Jonas Josefa Judit Karin Kasimir
    Keira Kirsten Klara Laszlo Leander Leona Linus Livia Lorenz Lucas Magnus Malik Marcel Margit Marius
    Matilda Milo Mira Nadia Nelson Nestor Niklas Noemi Nora Odette Olaf Ophelia Orson Oskar Paloma Pascal
    Petra Quentin Rafael Ramona Renata Rosalind Rufus Sabine Selma Silas Sunniva Tabitha Thaddeus Tilda Ulrik
    Valentina Viggo Wanda Xenia Yannick Yvonne Zelda
"""

FIRST_NAMES = tuple(_FIRST.split())

_LAST = """
    Adler Alcott Amsel Ashdown Balfour Bartok Beaumont Beck Becker Bellamy Birk Blakely Bly Boman Brandt
    Brisco Calloway Carrick Cavell Chadwick Cobb Cole Conway Corbin Crane Dahl Dalton Danforth Delgado Devlin
    Drummond Dunn Eames Eastman Ekberg Ellison Emmett Engel Fairbank Fallon Farrow Fenwick Finch Fontaine
    Forsyth Frost Gable Galloway Garrick Gerhard Gladwin Granger Gregson Hale Halvorsen Harker Hartley Haugen
    Hawthorne Hendry Holt Ibsen Ingram Jarvis Jensen Kaplan Keaton Kemp Kirkland Kovacs Lang Larkin Latimer
    Lindqvist Lowell Lund MacIntyre Malone Marlowe Mercer Merrick Montague Nash Nightingale Norwood Nye Oakley
    Ogden Osgood Paxton Pike Quimby Ramsey Rask Redfern Rhodes Roe Rosen Rourke Sandoval Seward Sheridan
    Sinclair Stroud Tate Thorne Underwood Vance Vasquez Voss Wainwright Webb Weller Winslow Yardley Zielinski
"""
LAST_NAMES = tuple(_LAST.split())
