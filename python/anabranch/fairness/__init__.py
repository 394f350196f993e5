"""Fair shares and possible rates of the flows of a scenario."""
