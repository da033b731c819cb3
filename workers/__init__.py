"""Workers (devices): their MegEngine versions, health, enrolment and grants."""
