"""What a person is told without asking: new findings, what happened meanwhile, what dead runs left behind."""
