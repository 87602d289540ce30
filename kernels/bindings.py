"""Every function of the kernels, with the types of its arguments and of what it returns.

`tests/kernels/test_bindings.py` holds this table to the headers `native/*/api.h`. Arrays, handles
and results by pointer are addresses: an int, None for NULL, or `ctypes.byref`. A structure is
passed as it is.
"""

import ctypes
from typing import Any

from tuskml.kernels import structures as s
from tuskml.kernels.fm import structures as fm
from tuskml.kernels.hinge.structures import Tried
from tuskml.kernels.nets import structures as nets
from tuskml.kernels.newton import structures as newton
from tuskml.kernels.paths import structures as paths
from tuskml.kernels.robust import Robust
from tuskml.kernels.rows import structures as rows
from tuskml.kernels.structures import ADDRESS, DOUBLE, INT32, INT64, UINT64
from tuskml.kernels.topics import structures as topics
from tuskml.kernels.trees import structures as trees

INT = ctypes.c_int
PASS, EPOCH = ctypes.POINTER(s.Pass), ctypes.POINTER(s.Epoch)
DUAL, INTERIOR = ctypes.POINTER(s.Dual), ctypes.POINTER(s.Interior)
STORED, STORED_FACTORS = ctypes.POINTER(s.Stored), ctypes.POINTER(s.StoredFactors)
FRAME = ctypes.POINTER(s.Frame)

SHARED: dict[str, tuple[Any, list[Any]]] = {
    "tk_charged_new": (INT, [ADDRESS, INT64, ADDRESS, ADDRESS]),
    "tk_charged_free": (None, [ADDRESS]),
    "tk_memory_use": (None, [ADDRESS, ctypes.POINTER(s.MemoryUse)]),
    "tk_working_open": (ADDRESS, [ADDRESS, INT64]),
    "tk_working_handler": (ADDRESS, [ADDRESS]),
    "tk_working_close": (None, [ADDRESS]),
    "tk_working_here": (ADDRESS, []),
    "tk_working_enter": (None, [ADDRESS]),
    "tk_version": (INT, []),
    "tk_nonzeros": (INT64, [ADDRESS]),
    "tk_use_pool": (None, [ADDRESS]),
    "tk_use_progress": (None, [ADDRESS]),
    "tk_cancel": (None, []),
    "tk_cancel_count": (INT64, []),
    "tk_watch_sigint": (None, [INT]),
    "tk_watch_host": (None, [ADDRESS]),
}
ROWS: dict[str, tuple[Any, list[Any]]] = {
    "tk_labels": (INT, [PASS, ADDRESS]),
    "tk_feature_moments": (INT, [PASS, INT64, ADDRESS, ADDRESS]),
    "tk_feature_counts": (INT, [PASS, ADDRESS, ADDRESS]),
    "tk_values_near_one": (INT, [PASS]),
    "tk_row_hashes": (INT, [PASS, UINT64, ADDRESS]),
    "tk_hold_out": (INT, [PASS, ADDRESS, ctypes.POINTER(rows.Hold), *[ADDRESS] * 3]),
    "tk_shuffle": (INT, [PASS, ADDRESS, UINT64, ADDRESS, ADDRESS, ADDRESS]),
    "tk_keep": (INT, [PASS, ADDRESS, ADDRESS]),
    "tk_moved": (INT, [PASS, *[ADDRESS] * 3]),
    "tk_free_groups": (None, [ADDRESS, INT64]),
    "tk_leaks": (INT, [PASS, INT64, ADDRESS]),
    "tk_choose": (INT, [PASS, ADDRESS, ADDRESS, ADDRESS]),
    "tk_spend": (None, [PASS, INT64]),
    "tk_deal": (INT, [PASS, ctypes.POINTER(rows.Dealing), ADDRESS, ADDRESS]),
    "tk_marks": (None, [ADDRESS, ADDRESS]),
    "tk_stretches": (INT, [PASS, ctypes.POINTER(rows.Dealing), ADDRESS]),
    "tk_link": (None, [ADDRESS, INT64, INT64, ADDRESS, ADDRESS]),
    "tk_ring": (None, [ADDRESS, INT64, INT64, ADDRESS]),
    "tk_unlink": (None, [ADDRESS, INT64]),
    "tk_scattered": (INT, [PASS]),
    "tk_gather": (INT, [PASS, ADDRESS, ADDRESS, ADDRESS]),
    "tk_ids_that_occur": (INT, [ADDRESS, ADDRESS, INT64, ADDRESS, ADDRESS, ADDRESS]),
    "tk_vocabulary": (INT, [ADDRESS, ADDRESS, ADDRESS, INT64, ADDRESS, ADDRESS, ADDRESS]),
    "tk_number": (INT, [ADDRESS, ADDRESS, INT64, ADDRESS, INT64, ADDRESS]),
    "tk_renumber": (INT, [ADDRESS, ADDRESS, INT64, ADDRESS, INT64, ADDRESS]),
    "tk_has_words": (INT, [ADDRESS]),
    "tk_number_words": (INT, [ADDRESS, ADDRESS, INT64, ADDRESS]),
    "tk_prepare": (
        INT,
        [ADDRESS, INT64, ctypes.POINTER(rows.Preparing), ADDRESS, ADDRESS, ADDRESS, ADDRESS],
    ),
    "tk_prepared_text": (INT64, [ADDRESS, INT32, INT64, ADDRESS]),
    "tk_prepared_categories": (ctypes.c_void_p, [ADDRESS, INT64, ADDRESS]),
    "tk_prepared_free": (None, [ADDRESS]),
    "tk_census_new": (ctypes.c_void_p, []),
    "tk_census_free": (None, [ADDRESS]),
    "tk_census_count": (INT, [ADDRESS, ADDRESS, ctypes.POINTER(rows.Preparing), ADDRESS]),
    "tk_census_add": (INT, [ADDRESS, ADDRESS, INT64]),
    "tk_census_bytes": (INT64, [ADDRESS, ADDRESS, INT64]),
    "tk_copy_rows": (INT, [PASS, ADDRESS, INT64, INT64, ADDRESS, ADDRESS]),
}
LINEAR: dict[str, tuple[Any, list[Any]]] = {
    "tk_gradient": (INT, [PASS, ADDRESS, ADDRESS]),
    "tk_curvature": (INT, [PASS, ADDRESS, ADDRESS, ADDRESS, INT, ADDRESS]),
    "tk_size_likelihood": (INT, [PASS, *[ADDRESS] * 3]),
    "tk_median_residual": (INT, [PASS, *[ADDRESS] * 2]),
    "tk_squared_scores": (INT, [PASS, ctypes.POINTER(Robust), ADDRESS]),
    "tk_cluster_scores": (INT, [PASS, ctypes.POINTER(Robust), ADDRESS, ADDRESS]),
    "tk_classes": (INT, [PASS, INT64, *[ADDRESS] * 3]),
    "tk_softmax_gradient": (INT, [PASS, ctypes.POINTER(s.Softmax), *[ADDRESS] * 2]),
    "tk_softmax_sgd": (INT, [PASS, ctypes.POINTER(s.Softmax), EPOCH, INT, *[ADDRESS] * 3]),
    "tk_softmax_scores": (
        INT,
        [PASS, ctypes.POINTER(s.Softmax), ctypes.POINTER(Robust), *[ADDRESS] * 2],
    ),
    "tk_softmax_curvature": (INT, [PASS, ctypes.POINTER(s.Softmax), *[ADDRESS] * 4]),
    "tk_softmax_reach": (INT, [PASS, ctypes.POINTER(s.Softmax), *[ADDRESS] * 4]),
    "tk_curvature_times": (INT, [PASS, *[ADDRESS] * 6]),
    "tk_margin_reach": (INT, [PASS, ADDRESS, ADDRESS, ADDRESS, ADDRESS]),
    "tk_open_pass": (
        INT,
        [PASS, ctypes.POINTER(s.Open), ADDRESS, ADDRESS, ADDRESS, INT, ADDRESS],
    ),
    "tk_solve": (INT, [ctypes.POINTER(s.System)]),
    "tk_newton_groups": (INT, [PASS, ctypes.POINTER(newton.Newton)]),
    "tk_lanczos": (INT64, [*[ADDRESS] * 3, ctypes.POINTER(s.Tridiagonal)]),
    "tk_quadrature": (INT, [INT64, *[ADDRESS] * 3]),
    "tk_try_hinge": (INT64, [ctypes.POINTER(Tried), INT, ADDRESS]),
    "tk_speculate": (INT64, [ctypes.POINTER(s.Quadratic), INT, ADDRESS, ADDRESS]),
}
HINGE: dict[str, tuple[Any, list[Any]]] = {
    "tk_dual_start": (INT, [PASS, DUAL]),
    "tk_dual_epoch": (INT, [PASS, DUAL, ADDRESS]),
    "tk_dual_check": (INT, [PASS, DUAL, ADDRESS]),
    "tk_interior_start": (INT, [PASS, INTERIOR, ADDRESS]),
    "tk_interior_slopes": (INT, [PASS, INTERIOR, INT]),
    "tk_interior_gradient": (INT, [PASS, INTERIOR, ADDRESS]),
    "tk_interior_curvature": (INT, [PASS, INTERIOR, ADDRESS, ADDRESS, ADDRESS]),
    "tk_interior_aim": (INT, [PASS, INTERIOR, ADDRESS, INT]),
    "tk_interior_move": (INT, [PASS, INTERIOR]),
}
EPOCHS: dict[str, tuple[Any, list[Any]]] = {
    "tk_sgd": (INT, [PASS, EPOCH, ADDRESS, ADDRESS, ADDRESS]),
    "tk_hogwild": (INT, [PASS, EPOCH, ADDRESS, ADDRESS, ADDRESS]),
    "tk_svrg": (INT, [PASS, EPOCH, ADDRESS, ADDRESS, ADDRESS, ADDRESS]),
    "tk_runs": (INT, [PASS, EPOCH, ADDRESS, ADDRESS, ADDRESS]),
}
STORE: dict[str, tuple[Any, list[Any]]] = {
    "tk_chunks_new": (INT, [ADDRESS, ctypes.POINTER(s.Cut), ADDRESS]),
    "tk_chunks_free": (None, [ADDRESS]),
    "tk_chunks_ids": (INT, [ADDRESS, INT64, ADDRESS]),
    "tk_chunks_copy_ids": (None, [ADDRESS, ADDRESS]),
    "tk_chunks_keys": (INT, [ADDRESS, ADDRESS, ADDRESS, ADDRESS]),
    "tk_chunks_copy_keys": (None, [ADDRESS, ADDRESS]),
    "tk_chunks_place": (INT, [ADDRESS, ADDRESS]),
    "tk_chunk_number": (INT, [ADDRESS, INT64, ADDRESS, ADDRESS, ADDRESS]),
    "tk_chunk_replace": (None, [ADDRESS, INT64, ADDRESS]),
    "tk_chunk_put": (INT, [ADDRESS, INT64, ctypes.c_uint64, ctypes.c_uint32]),
    "tk_chunks_split": (INT, [ADDRESS, INT64]),
    "tk_chunks_count": (INT64, [ADDRESS]),
    "tk_chunks_at": (None, [ADDRESS, INT64, ctypes.POINTER(s.Chunk)]),
    "tk_stored_epoch": (INT, [STORED]),
    "tk_stored_loss": (INT, [STORED]),
    "tk_stored_settle": (INT, [STORED, ADDRESS, ADDRESS, INT64, INT64]),
    "tk_scratch_new": (INT, [ADDRESS, ADDRESS, INT64, INT32, ADDRESS]),
    "tk_scratch_free": (None, [ADDRESS]),
    "tk_scratch_reset": (None, [ADDRESS]),
    "tk_scratch_access": (ADDRESS, [ADDRESS]),
    "tk_scratch_frame": (FRAME, [ADDRESS, INT64]),
}
FACTORIZATION: dict[str, tuple[Any, list[Any]]] = {
    "tk_rating_ids": (INT, [PASS, ctypes.POINTER(s.RatingIds)]),
    "tk_factorization_new": (INT, [PASS, ADDRESS, ctypes.POINTER(s.FactorSpec), ADDRESS]),
    "tk_factorization_free": (None, [ADDRESS]),
    "tk_factorization_start": (None, [ADDRESS]),
    "tk_factorization_keep": (INT, [ADDRESS]),
    "tk_factorization_restore": (None, [ADDRESS]),
    "tk_factorization_epoch": (INT, [ADDRESS, INT64, DOUBLE, INT, INT, INT64, ADDRESS]),
    "tk_factorization_solve": (INT, [ADDRESS, DOUBLE, INT, INT64, ADDRESS]),
    "tk_factorization_objective": (INT, [ADDRESS, INT, INT64, ADDRESS]),
    "tk_factorization_loss": (INT, [ADDRESS, PASS, ADDRESS]),
    "tk_factorization_write": (None, [ADDRESS, ADDRESS, ADDRESS]),
    "tk_factorization_mean": (DOUBLE, [ADDRESS]),
    "tk_factorization_deviation": (DOUBLE, [ADDRESS]),
    "tk_factor_count": (INT, [ADDRESS, ADDRESS, INT32, INT, INT64, ADDRESS]),
    "tk_factor_keys_new": (INT, [ADDRESS, INT32, INT64, INT64, INT, INT64, ADDRESS]),
    "tk_factor_keys_free": (None, [ADDRESS]),
    "tk_factor_keys_start": (None, [ADDRESS]),
    "tk_factor_keys_resume": (None, [ADDRESS]),
    "tk_factor_keys_first_item": (INT64, [ADDRESS]),
    "tk_stored_factors_epoch": (INT, [STORED_FACTORS]),
    "tk_stored_factors_loss": (INT, [STORED_FACTORS]),
    "tk_feedback_outside": (INT, [PASS, DOUBLE, ADDRESS, ADDRESS]),
    "tk_interactions_new": (INT, [PASS, ADDRESS, ctypes.POINTER(s.FactorSpec), ADDRESS]),
    "tk_interactions_pairs": (INT64, [ADDRESS]),
    "tk_interactions_confidence": (DOUBLE, [ADDRESS]),
    "tk_interactions_free": (None, [ADDRESS]),
    "tk_interactions_start": (None, [ADDRESS]),
    "tk_interactions_solve": (INT, [ADDRESS, INT, INT, INT64, ADDRESS]),
    "tk_interactions_objective": (INT, [ADDRESS, INT, INT64, ADDRESS]),
    "tk_interactions_rank": (INT, [ADDRESS, INT64, DOUBLE, INT, INT64, ADDRESS]),
    "tk_interactions_write": (None, [ADDRESS, ADDRESS]),
}
BOOST, BINS = ctypes.POINTER(trees.Boost), ctypes.POINTER(trees.Bins)
TREE_PARTS: dict[str, tuple[Any, list[Any]]] = {
    "tk_weights": (None, [ADDRESS, ADDRESS]),
    "tk_gaps": (None, [ADDRESS, ADDRESS]),
    "tk_bin_sample_new": (INT, [ADDRESS, INT64, ADDRESS, ADDRESS]),
    "tk_bin_sample_free": (None, [ADDRESS]),
    "tk_bin_sample_values": (INT64, [ADDRESS, INT64, ADDRESS]),
    "tk_level_counts": (INT, [ADDRESS, INT64, ADDRESS]),
    "tk_bounds_of": (INT64, [ADDRESS, INT64, BOOST, ADDRESS]),
    "tk_levels_of": (INT64, [ADDRESS, BOOST, ADDRESS]),
    "tk_base_of": (DOUBLE, [BOOST, DOUBLE, DOUBLE]),
    "tk_part_new": (INT, [PASS, BOOST, BINS, *[ADDRESS] * 3]),
    "tk_part_free": (None, [ADDRESS]),
    "tk_part_sums": (INT, [ADDRESS, ADDRESS]),
    "tk_part_start": (INT, [ADDRESS, ADDRESS, ADDRESS]),
    "tk_part_losses": (INT, [ADDRESS, ADDRESS]),
    "tk_part_keys": (INT, [ADDRESS, ADDRESS]),
    "tk_part_tell_apart": (INT, [ADDRESS, ADDRESS, ADDRESS, INT64]),
    "tk_part_begin": (INT, [ADDRESS, INT64, INT64, ADDRESS, ADDRESS]),
    "tk_part_ranks": (INT, [ADDRESS, ctypes.POINTER(trees.Ranks), *[ADDRESS] * 3]),
    "tk_part_next": (INT, [ADDRESS, ctypes.POINTER(trees.Ranks), ADDRESS]),
    "tk_kept_iterations": (INT64, [DOUBLE, ADDRESS, ADDRESS, INT64]),
    "tk_between": (DOUBLE, [DOUBLE, DOUBLE, INT64, DOUBLE]),
    "tk_part_leaves": (INT, [ADDRESS, INT64, *[ADDRESS] * 4]),
    "tk_part_draw": (INT, [ADDRESS, INT64, ADDRESS, ADDRESS]),
    "tk_part_divide": (INT, [ADDRESS, ADDRESS, INT64, ADDRESS]),
    "tk_part_add": (INT, [ADDRESS, INT64, *[ADDRESS] * 3]),
    "tk_bagged_new": (INT, [PASS, BOOST, BINS, ADDRESS, ADDRESS]),
    "tk_bagged_free": (None, [ADDRESS]),
    "tk_bagged_sums": (INT, [ADDRESS, ADDRESS]),
    "tk_bagged_keys": (INT, [ADDRESS, ADDRESS]),
    "tk_bagged_tell_apart": (INT, [ADDRESS, ADDRESS, ADDRESS, INT64, ADDRESS]),
    "tk_bagged_place": (INT, [ADDRESS, ADDRESS, INT64]),
    "tk_bagged_start": (INT, [ADDRESS, ADDRESS, DOUBLE, ADDRESS]),
    "tk_bagged_begin": (INT, [ADDRESS, INT64, INT64, ADDRESS, ADDRESS]),
    "tk_bagged_divide": (INT, [ADDRESS, ADDRESS, INT64, ADDRESS]),
    "tk_bagged_count": (INT64, [ADDRESS, ADDRESS, INT64]),
    "tk_bagged_rows": (None, [ADDRESS, ADDRESS, INT64, *[ADDRESS] * 3]),
    "tk_bagged_add": (INT, [ADDRESS, INT64, INT64, *[ADDRESS] * 3]),
    "tk_bagged_losses": (None, [ADDRESS, ADDRESS]),
    "tk_summed_new": (INT, [BOOST, BINS, ctypes.POINTER(trees.Growing), ADDRESS]),
    "tk_summed_free": (None, [ADDRESS]),
    "tk_summed_begin": (INT, [ADDRESS, INT64, INT64, ADDRESS, ADDRESS]),
    "tk_summed_wanted": (INT64, [ADDRESS, INT64, ADDRESS]),
    "tk_summed_given": (INT, [ADDRESS, ADDRESS]),
    "tk_summed_rows_wanted": (INT64, [ADDRESS, INT64, ADDRESS]),
    "tk_summed_given_rows": (INT, [ADDRESS, ADDRESS, ADDRESS, INT64]),
    "tk_summed_sizes": (None, [ADDRESS, ADDRESS]),
    "tk_summed_copy": (None, [ADDRESS, ctypes.POINTER(trees.SummedArrays)]),
}
TREES: dict[str, tuple[Any, list[Any]]] = {
    "tk_boost_groups": (INT, [PASS, ctypes.POINTER(trees.Boost), ADDRESS, ADDRESS]),
    "tk_forests_free": (None, [ADDRESS]),
    "tk_forests_about": (None, [ADDRESS, ADDRESS]),
    "tk_forests_numbers": (None, [ADDRESS, INT64, INT64, ADDRESS]),
    "tk_forests_copy": (None, [ADDRESS, INT64, ctypes.POINTER(trees.ForestArrays)]),
}
NET, NET_VISIT = ctypes.POINTER(nets.Net), ctypes.POINTER(nets.Visit)
NET_PIECES, NET_HELD = ctypes.POINTER(nets.Pieces), ctypes.POINTER(nets.Held)
NET_READ = ctypes.POINTER(nets.Read)
NETS: dict[str, tuple[Any, list[Any]]] = {
    "tk_net_weights": (INT64, [NET, INT64]),
    "tk_net_bytes": (INT64, [NET, INT64, INT64]),
    "tk_train_nets": (INT, [PASS, NET, *[ADDRESS] * 4]),
    "tk_net_gradient": (INT, [PASS, NET, ADDRESS]),
    "tk_net_floats": (INT64, [NET, INT64]),
    "tk_net_begin": (INT, [NET, NET_VISIT, INT64, ADDRESS]),
    "tk_visit_net": (INT, [PASS, NET, ADDRESS, NET_VISIT, ADDRESS]),
    "tk_net_losses": (INT, [PASS, NET, ADDRESS, NET_VISIT, ADDRESS]),
    "tk_net_moments": (INT64, [PASS, NET, ADDRESS]),
    "tk_net_centre": (INT, [NET, INT64, ADDRESS, ctypes.c_double, ADDRESS]),
    "tk_net_end": (INT, [NET, NET_VISIT, INT64, ADDRESS, ADDRESS]),
    "tk_net_stride": (INT64, [NET, INT64]),
    "tk_net_layers": (INT64, [NET, INT64]),
    "tk_net_rows": (INT, [PASS, NET, ADDRESS, NET_VISIT, *[ADDRESS] * 3]),
    "tk_net_room_open": (INT, [NET, INT64, INT64, ADDRESS, ADDRESS]),
    "tk_net_room_close": (None, [ADDRESS]),
    "tk_net_pieces_pass": (INT, [ADDRESS, NET, INT64, INT, INT64, NET_PIECES]),
    "tk_net_step_layers": (INT, [NET, *[INT64] * 3, ADDRESS, ADDRESS]),
    "tk_net_step_held": (INT, [NET, INT64, INT64, NET_HELD, NET_READ]),
    "tk_net_gather": (None, [ADDRESS, ADDRESS, ADDRESS, INT64, ADDRESS]),
    "tk_net_scatter": (None, [ADDRESS, ADDRESS, ADDRESS, INT64, ADDRESS]),
}
PATHS: dict[str, tuple[Any, list[Any]]] = {
    "tk_paths_new": (INT, [PASS, ctypes.POINTER(paths.Spec), *[ADDRESS] * 3]),
    "tk_paths_by_sums": (INT, [PASS, ctypes.POINTER(paths.Spec), INT64]),
    "tk_paths_copy": (None, [ADDRESS, INT64, ADDRESS, ADDRESS]),
    "tk_paths_free": (None, [ADDRESS]),
    "tk_path_texts_new": (INT, [ctypes.POINTER(paths.Chosen), INT, ADDRESS]),
    "tk_path_text": (ADDRESS, [ADDRESS, INT64, ADDRESS]),
    "tk_path_texts_free": (None, [ADDRESS]),
}
TOPICS: dict[str, tuple[Any, list[Any]]] = {
    "tk_topics_new": (INT, [PASS, ctypes.POINTER(topics.Spec), *[ADDRESS] * 4]),
    "tk_topics_free": (None, [ADDRESS]),
    "tk_topics_sweep": (INT, [ADDRESS, PASS, INT64]),
    "tk_topics_likelihood": (INT, [ADDRESS, PASS, ADDRESS]),
    "tk_topics_optimize": (INT, [ADDRESS, PASS, INT64]),
    "tk_topics_bytes": (INT64, [ADDRESS, INT64]),
    "tk_topics_write": (INT, [ADDRESS, INT64, ADDRESS]),
    "tk_topics_copy": (None, [ADDRESS, INT64, *[ADDRESS] * 3]),
    "tk_online_new": (INT, [PASS, ctypes.POINTER(topics.OnlineSpec), *[ADDRESS] * 4]),
    "tk_online_free": (None, [ADDRESS]),
    "tk_online_pass": (INT, [ADDRESS, PASS]),
    "tk_online_bound": (INT, [ADDRESS, PASS, ADDRESS]),
    "tk_online_bytes": (INT64, [ADDRESS, INT64]),
    "tk_online_write": (INT, [ADDRESS, INT64, ADDRESS]),
    "tk_online_lambda": (None, [ADDRESS, INT64, INT32, ADDRESS]),
}
FM = ctypes.POINTER(fm.Machine)
MACHINES: dict[str, tuple[Any, list[Any]]] = {
    "tk_fm_bytes": (INT64, [FM, INT64]),
    "tk_train_fms": (INT, [PASS, FM, *[ADDRESS] * 4]),
}
NEWTON: dict[str, tuple[Any, list[Any]]] = {
    "tk_chord_descend": (INT, [ctypes.POINTER(newton.Chord)]),
}
FUNCTIONS = (
    TOPICS
    | MACHINES
    | PATHS
    | NETS
    | TREES
    | TREE_PARTS
    | SHARED
    | ROWS
    | LINEAR
    | NEWTON
    | HINGE
    | EPOCHS
    | STORE
    | FACTORIZATION
)
"""By name what a function returns and takes."""


def declare(library: ctypes.CDLL) -> None:
    """Gives each function of the library its types."""
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
