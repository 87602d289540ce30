-- The same by one neural net for all carriers, in which a carrier is a vector of two numbers.
{{ config(
    materialized='model',
    task='mlp',
    label='late',
    features=['dep_delay', 'distance', 'hour', 'carrier'],
    held_out='held_out',
    options={'objective': 'logistic', 'layers': [16], 'max_iter': 20, 'embedding': 2},
) }}
select * from {{ ref('flight_features') }}
