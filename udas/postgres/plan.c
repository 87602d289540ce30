/* Planner support for trainings: rows are grouped by hash wherever possible, and workers are
 * charged for passing on all their rows. A sorted aggregate finishes one group before it reads
 * the next, so each group trains alone, and the set-up of a training costs a hundred times the
 * arithmetic of a small group. The planner cannot know that: it counts the calls of the final
 * function, which are the same either way. It requests the final function's cost from this
 * function just before it considers ways of grouping. If it has both ways, we remove the sorted
 * one here. If it has only one, nothing changes: for DISTINCT within an aggregate, for grouping
 * sets, or after SET enable_hashagg = off. */
#include "backend.h"

#include "nodes/pathnodes.h"
#include "nodes/supportnodes.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "utils/selfuncs.h"

/* Whether an aggregate needs its rows in order, as for DISTINCT within one. */
static bool wants_order(const PlannerInfo *root) {
#if PG_VERSION_NUM >= 140000
    return root->numOrderedAggs > 0;
#else /* it counts them later */
    const int which = PVC_INCLUDE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS | PVC_RECURSE_PLACEHOLDERS;
    List *found = list_concat(pull_var_clause((Node *)root->processed_tlist, which),
                              pull_var_clause(root->parse->havingQual, which));
    ListCell *cell;
    foreach (cell, found) {
        const Aggref *call = (const Aggref *)lfirst(cell);
        if (IsA(call, Aggref) && (call->aggorder || call->aggdistinct))
            return true;
    }
    return false;
#endif
}

static bool may_hash(const PlannerInfo *root) {
    return enable_hashagg && root->parse->groupClause && !root->parse->groupingSets &&
           !wants_order(root) && grouping_is_hashable(root->parse->groupClause);
}

static void group_by_hash(List *clauses) {
    ListCell *cell;
    foreach (cell, clauses)
        lfirst_node(SortGroupClause, cell)->sortop = InvalidOid;
}

PG_FUNCTION_INFO_V1(tuskml_support);
Datum tuskml_support(PG_FUNCTION_ARGS) {
    Node *request = (Node *)PG_GETARG_POINTER(0);
    PlannerInfo *root =
        IsA(request, SupportRequestCost) ? ((SupportRequestCost *)request)->root : NULL;
    if (root && may_hash(root)) {
        group_by_hash(root->parse->groupClause);
#if PG_VERSION_NUM >= 160000
        group_by_hash(root->processed_groupClause);
#endif
    }
    PG_RETURN_POINTER(NULL);
}

/* --- cost of parallel workers --- */

/* The join of all tables of the query. */
static const RelOptInfo *joined(const PlannerInfo *root) {
    int only;
    ListCell *cell;
    if (bms_get_singleton_member(root->all_baserels, &only))
        return root->simple_rel_array[only];
    foreach (cell, root->join_rel_list)
        if (bms_equal(lfirst_node(RelOptInfo, cell)->relids, root->all_baserels))
            return lfirst_node(RelOptInfo, cell);
    return NULL;
}

static double groups_of(PlannerInfo *root, double rows) {
    const Query *query = root->parse;
    if (!query->groupClause)
        return 1;
    List *keys = get_sortgrouplist_exprs(query->groupClause, query->targetList);
#if PG_VERSION_NUM >= 140000
    return Max(1, estimate_num_groups(root, keys, rows, NULL, NULL));
#else
    return Max(1, estimate_num_groups(root, keys, rows, NULL));
#endif
}

/* A worker passes on all rows that it packed, not one number per group. Each row costs what the
 * planner charges for a row that goes from a worker to the leader. */
PG_FUNCTION_INFO_V1(tuskml_support_serialize);
Datum tuskml_support_serialize(PG_FUNCTION_ARGS) {
    Node *request = (Node *)PG_GETARG_POINTER(0);
    if (!IsA(request, SupportRequestCost))
        PG_RETURN_POINTER(NULL);
    SupportRequestCost *cost = (SupportRequestCost *)request;
    const RelOptInfo *rows = cost->root ? joined(cost->root) : NULL;
    if (!rows)
        PG_RETURN_POINTER(NULL);
    cost->startup = 0;
    cost->per_tuple =
        cpu_operator_cost + parallel_tuple_cost * rows->rows / groups_of(cost->root, rows->rows);
    PG_RETURN_POINTER(cost);
}
