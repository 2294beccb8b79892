"""How the embedded pair `mini-ape` and `mini-rope` was trained. Not part of the installed package."""
