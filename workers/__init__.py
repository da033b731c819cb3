"""The devices: what they are, which MegEngine versions they have, who may use them."""
