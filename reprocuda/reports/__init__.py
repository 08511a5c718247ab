"""Reports for people: terminal tables, one self-contained HTML page, and the measures of variability they show."""
