"""Where two runs of the same program part: fingerprints of what every operator read and wrote."""
