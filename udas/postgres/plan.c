/* How the planner groups rows for a training: by hash, wherever it can.
 *
 * A sorted aggregate finishes one group before it reads the next, so that each trains by itself,
 * and the set-up of a training costs a hundred times the arithmetic of a small group. The planner
 * cannot know: it counts the calls of a final function, which are as many either way. It asks this
 * function what the final function costs, just before it looks which ways of grouping there are,
 * and of two ways one is taken off the table here. Without a choice, as for DISTINCT within an
 * aggregate, for grouping sets or by SET enable_hashagg = off, all stays as it was.
 */
#include "door.h"

#include "nodes/pathnodes.h"
#include "nodes/supportnodes.h"
#include "optimizer/cost.h"
#include "optimizer/tlist.h"

static bool may_hash(const PlannerInfo *root) {
    return enable_hashagg && root->parse->groupClause && !root->parse->groupingSets &&
           root->numOrderedAggs == 0 && grouping_is_hashable(root->parse->groupClause);
}

static void group_by_hash(List *clauses) {
    ListCell *cell;
    foreach (cell, clauses)
        lfirst_node(SortGroupClause, cell)->sortop = InvalidOid;
}

PG_FUNCTION_INFO_V1(tuskml_support);
Datum tuskml_support(PG_FUNCTION_ARGS) {
    Node *request = (Node *)PG_GETARG_POINTER(0);
    PlannerInfo *root = IsA(request, SupportRequestCost)
                            ? ((SupportRequestCost *)request)->root
                            : NULL;
    if (root && may_hash(root)) {
        group_by_hash(root->parse->groupClause);
#if PG_VERSION_NUM >= 160000
        group_by_hash(root->processed_groupClause);
#endif
    }
    PG_RETURN_POINTER(NULL);
}
