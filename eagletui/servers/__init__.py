"""Discovery, family, verdict: from process tables, samples and log state to one state with a reason. Pure."""
