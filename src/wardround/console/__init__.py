"""The live console: a page on which a run can be watched, fed from the files that the run writes."""
