"""SimCSE (Gao et al., 2021) on the texts of events, as a method of eventformers."""
