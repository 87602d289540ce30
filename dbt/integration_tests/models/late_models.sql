-- Will a flight arrive more than 15 minutes late? One model a carrier.
{{ config(
    materialized='model',
    task='logistic',
    label='late',
    features=['dep_delay', 'distance', 'hour'],
    group_by='carrier',
    held_out='held_out',
    options={'l2': var('l2', 0.001)},
) }}
select * from {{ ref('flight_features') }}
