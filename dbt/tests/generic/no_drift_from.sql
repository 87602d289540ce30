{# A column of numbers is distributed as in a reference: their population stability index (PSI) is at most a limit.

   PSI = sum over bins of (p - q) ln(p / q), p and q the shares of the rows in a bin, here and in the reference; the bins
   are the reference's quantiles. Below 0.1 is usually read as stable, above 0.25 as shifted. A share of no rows counts
   as half a row. Fails too where either side has no row. #}
{% test no_drift_from(model, column_name, reference, reference_column=none, at_most=0.2, bins=10) %}
{% set other = reference_column or column_name %}
with edges as (
    select
    {%- for bin in range(1, bins) %}
        percentile_cont({{ bin / bins }}) within group (order by {{ other }}) as e{{ bin }} {{- ',' if not loop.last }}
    {%- endfor %}
    from {{ reference }} where {{ other }} is not null
),
here as ({{ tuskml.shares(model, column_name, bins) }}),
there as ({{ tuskml.shares(reference, other, bins) }}),
bins as (
    {%- for bin in range(bins) %}
    select {{ bin }} as bin {{ 'union all' if not loop.last }}
    {%- endfor %}
),
shares as (
    select b.bin,
           coalesce(h.n, 0.5) / nullif((select sum(n) from here), 0) as p,
           coalesce(t.n, 0.5) / nullif((select sum(n) from there), 0) as q
    from bins as b left join here as h on h.bin = b.bin left join there as t on t.bin = b.bin
)
select sum((p - q) * ln(p / q)) as psi from shares
having coalesce(sum((p - q) * ln(p / q)), {{ at_most }} + 1) > {{ at_most }}
{% endtest %}
