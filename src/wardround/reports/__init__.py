"""What a person looks at: tables, plots, pages."""
