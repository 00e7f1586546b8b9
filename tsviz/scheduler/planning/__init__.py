"""The planning half: chunk cutting, demands and reserves, role grammars, retraction, readmission."""
