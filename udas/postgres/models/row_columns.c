/* Planner support for predictions from rows by name: a call such as predict(m, r) of a row
 * whose columns the query shows becomes a call with these columns, so that no row is formed and
 * taken apart again. They are the columns of ROW(a, b), and r of a FROM (SELECT a, b) AS r that
 * the planner has pulled up; (SELECT r FROM (SELECT a, b) AS r), which would run as a query of
 * its own for each row; t of a table, in a query without outer joins, whose missing rows are
 * NULL as a whole. The planner does not call support functions for arguments of aggregates. So
 * queries that we write for trainings put a row into a call of _tuskml_row, which it replaces
 * by ROW(a, b). */
#include "../extension.h"

#include "access/relation.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
#include "optimizer/optimizer.h"
#include "optimizer/planmain.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#if PG_VERSION_NUM >= 160000
#define may_execute(function) \
    (object_aclcheck(ProcedureRelationId, function, GetUserId(), ACL_EXECUTE) == ACLCHECK_OK)
#include "catalog/pg_proc.h"
#else
#define may_execute(function) (pg_proc_aclcheck(function, GetUserId(), ACL_EXECUTE) == ACLCHECK_OK)
#endif

/* Columns of a row: expressions and, as String nodes, names. */
typedef struct shown {
    List *values;
    List *names;
} shown;

/* --- rows whose columns a query shows --- */

/* ROW(...) of no named type. */
static bool in_row(Node *features, shown *found) {
    RowExpr *row = (RowExpr *)features;
    if (!IsA(features, RowExpr) || row->row_typeid != RECORDOID ||
        list_length(row->colnames) != list_length(row->args))
        return false;
    *found = (shown){row->args, row->colnames};
    return true;
}

/* Whether a query consists of SELECT and FROM only. */
static bool is_plain(const Query *q) {
    return q->commandType == CMD_SELECT && !q->hasAggs && !q->hasWindowFuncs &&
           !q->hasTargetSRFs && !q->cteList && !q->groupClause && !q->groupingSets &&
           !q->havingQual && !q->windowClause && !q->distinctClause && !q->sortClause &&
           !q->limitOffset && !q->limitCount && !q->rowMarks && !q->setOperations &&
           !q->jointree->quals;
}

/* The SELECT a, b of (SELECT r FROM (SELECT a, b) AS r), or NULL; names: its columns', which
 * are x and y after AS r(x, y). */
static Query *row_query(const SubLink *link, const List **names) {
    const Query *outer = (const Query *)link->subselect;
    if (link->subLinkType != EXPR_SUBLINK || !IsA(outer, Query) || !is_plain(outer) ||
        list_length(outer->rtable) != 1 || list_length(outer->jointree->fromlist) != 1 ||
        list_length(outer->targetList) != 1)
        return NULL;
    const RangeTblEntry *from = linitial_node(RangeTblEntry, outer->rtable);
    const Var *row = (const Var *)linitial_node(TargetEntry, outer->targetList)->expr;
    bool whole = IsA(row, Var) && row->varno == 1 && !row->varattno && !row->varlevelsup &&
                 row->vartype == RECORDOID;
    if (!whole || from->rtekind != RTE_SUBQUERY || from->security_barrier ||
        !is_plain(from->subquery) || from->subquery->jointree->fromlist)
        return NULL;
    *names = from->eref->colnames;
    return from->subquery;
}

static bool in_subquery(PlannerInfo *root, Node *features, shown *found) {
    const List *names = NIL;
    Query *query = IsA(features, SubLink) ? row_query((SubLink *)features, &names) : NULL;
    if (!query || list_length(names) != list_length(query->targetList) ||
        contain_volatile_functions((Node *)query->targetList)) /* evaluated once for the row */
        return false;
    *found = (shown){NIL, NIL};
    ListCell *cell;
    foreach (cell, query->targetList) {
        TargetEntry *entry = lfirst_node(TargetEntry, cell);
        if (entry->resjunk)
            return false;
        Node *value = copyObject((Node *)entry->expr);
        IncrementVarSublevelsUp(value, -2, 2); /* it leaves two query levels */
        found->values = lappend(found->values, eval_const_expressions(root, value));
        found->names = lappend(found->names, copyObject(list_nth(names, entry->resno - 1)));
    }
    return true;
}

static bool has_outer_join(const Query *query) {
    ListCell *cell;
    foreach (cell, query->rtable) {
        const RangeTblEntry *from = lfirst_node(RangeTblEntry, cell);
        if (from->rtekind == RTE_JOIN && IS_OUTER_JOIN(from->jointype))
            return true;
    }
    return false;
}

/* Whether an expression is the whole row of a table that the query reads. */
static bool is_whole_row(const PlannerInfo *root, const Node *features) {
    const Var *row = (const Var *)features;
    if (!IsA(features, Var) || row->varattno || row->varlevelsup || IS_SPECIAL_VARNO(row->varno))
        return false;
#if PG_VERSION_NUM >= 180000
    if (row->varreturningtype != VAR_RETURNING_DEFAULT)
        return false;
#endif
    return root && !has_outer_join(root->parse) &&
           rt_fetch(row->varno, root->parse->rtable)->rtekind == RTE_RELATION;
}

static bool in_table(const PlannerInfo *root, const Node *features, shown *found) {
    if (!is_whole_row(root, features))
        return false;
    const Var *row = (const Var *)features;
    const RangeTblEntry *from = rt_fetch(row->varno, root->parse->rtable);
    Relation table = relation_open(from->relid, NoLock);
    TupleDesc type = RelationGetDescr(table);
    bool same = table->rd_rel->reltype == row->vartype;
    *found = (shown){NIL, NIL};
    for (int i = 0; same && i < type->natts; i++) {
        Form_pg_attribute a = TupleDescAttr(type, i);
        if (a->attisdropped)
            continue;
        Var *value = makeVar(row->varno, (AttrNumber)(i + 1), a->atttypid, a->atttypmod,
                             a->attcollation, 0);
        found->values = lappend(found->values, value);
        found->names = lappend(found->names, makeString(pstrdup(NameStr(a->attname))));
    }
    relation_close(table, NoLock);
    return found->values != NIL;
}

/* --- the call with columns --- */

static Const *array_of(const List *names) {
    Datum *items = palloc(list_length(names) * sizeof *items);
    int n = 0;
    ListCell *cell;
    foreach (cell, names)
        items[n++] = CStringGetTextDatum(strVal(lfirst(cell)));
    ArrayType *array = construct_array(items, n, TEXTOID, -1, false, TYPALIGN_INT);
    return makeConst(TEXTARRAYOID, -1, DEFAULT_COLLATION_OID, -1, PointerGetDatum(array), false,
                     false);
}

/* _tuskml_predict_columns for predict, and so on; with a class _tuskml_predict_proba_of_columns.
 */
static Oid function_for(const FuncExpr *call) {
    const char *of = list_length(call->args) > 2 ? "_of" : "";
    char *name = psprintf("_tuskml_%s%s_columns", get_func_name(call->funcid), of);
    return function_of_ours(name);
}

/* A caller needs the right to call either function; the plan is made anew when the one that the
 * query names changes. In a query with grouping sets a row may be NULL where its columns are not.
 */
static Node *with_columns(PlannerInfo *root, const FuncExpr *call) {
    Node *features = list_nth(call->args, 1);
    shown row;
    if (root && root->parse->groupingSets)
        return NULL;
    if (!in_row(features, &row) && !in_subquery(root, features, &row) &&
        !in_table(root, features, &row))
        return NULL;
    List *args = list_make2(linitial(call->args), array_of(row.names));
    args = list_concat(args, list_copy_tail(call->args, 2));
    args = list_concat(args, row.values);
    Oid function = function_for(call);
    if (!row.values || list_length(args) > FUNC_MAX_ARGS || !OidIsValid(function) ||
        !may_execute(call->funcid) || !may_execute(function))
        return NULL;
    if (root)
        record_plan_function_dependency(root, call->funcid);
    return (Node *)makeFuncExpr(function, call->funcresulttype, args, call->funccollid,
                                call->inputcollid, COERCE_EXPLICIT_CALL);
}

PG_FUNCTION_INFO_V1(tuskml_row_columns);
Datum tuskml_row_columns(PG_FUNCTION_ARGS) {
    Node *asked = (Node *)PG_GETARG_POINTER(0);
    if (!IsA(asked, SupportRequestSimplify))
        PG_RETURN_POINTER(NULL);
    const SupportRequestSimplify *simplify = (const SupportRequestSimplify *)asked;
    PG_RETURN_POINTER(with_columns(simplify->root, simplify->fcall));
}

PG_FUNCTION_INFO_V1(tuskml_row_expression);
Datum tuskml_row_expression(PG_FUNCTION_ARGS) {
    Node *asked = (Node *)PG_GETARG_POINTER(0);
    if (!IsA(asked, SupportRequestSimplify))
        PG_RETURN_POINTER(NULL);
    const SupportRequestSimplify *simplify = (const SupportRequestSimplify *)asked;
    shown row;
    if (!in_subquery(simplify->root, linitial(simplify->fcall->args), &row) || !row.values)
        PG_RETURN_POINTER(NULL);
    RowExpr *made = makeNode(RowExpr);
    made->args = row.values;
    made->colnames = row.names;
    made->row_typeid = RECORDOID;
    made->row_format = COERCE_EXPLICIT_CALL;
    made->location = -1;
    PG_RETURN_POINTER(made);
}

/* Rows that the planner does not recognise stay unchanged. */
PG_FUNCTION_INFO_V1(tuskml_row);
Datum tuskml_row(PG_FUNCTION_ARGS) {
    if (PG_ARGISNULL(0))
        PG_RETURN_NULL();
    PG_RETURN_DATUM(PG_GETARG_DATUM(0));
}
