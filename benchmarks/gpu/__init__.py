"""`make gpu`: the campaign on a real card, in parts that go on where they were left."""
