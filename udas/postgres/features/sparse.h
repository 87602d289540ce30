/* Makes sparse features. */
#ifndef TUSK_POSTGRES_SPARSE_H
#define TUSK_POSTGRES_SPARSE_H

#include "../backend.h"

#include "utils/array.h"

/* A value of the composite type that the function returns at this call site; a NULL array
 * becomes a NULL field. */
Datum make_sparse(FunctionCallInfo fcinfo, ArrayType *indices, ArrayType *values);

#endif
