"""Groups that are larger than a shard, trained by sums over their shards where these are."""
