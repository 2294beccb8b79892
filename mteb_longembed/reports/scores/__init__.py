"""From folders of results to one line of scores a model. Tables, figures and pages start from these lines."""
