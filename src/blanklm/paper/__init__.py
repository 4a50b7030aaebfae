"""The evidence: what turns the files under results/ into the tables of the documents."""
