"""Pre-registered experiments on diffusion-drafted speculative decoding.

Rooms, in the order data flows through them: `config`, `streams`, `targets`, `layers`,
`drafters`, `training`, `decoding`, `measure` (these run models), then `stats`, `studies`,
`prereg`, `report` (these never import MLX).
"""
