"""From folders of results to one line of scores for each model. Tables, figures and pages use these lines."""
