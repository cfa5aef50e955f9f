EXPLAINED: dict[str, str] = {}
