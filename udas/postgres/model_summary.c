/* What model_summary cannot say in SQL. */
#include "door.h"

/* IEEE division: SQL's own refuses a standard error of 0 and a quotient out of range. */
PG_FUNCTION_INFO_V1(tuskml_divide);
Datum tuskml_divide(PG_FUNCTION_ARGS) {
    PG_RETURN_FLOAT8(PG_GETARG_FLOAT8(0) / PG_GETARG_FLOAT8(1));
}
