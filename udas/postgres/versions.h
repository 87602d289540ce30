/* Differences between PostgreSQL 13 and 18, so that other files target the newest only. */
#ifndef TUSK_POSTGRES_VERSIONS_H
#define TUSK_POSTGRES_VERSIONS_H

#include "postgres.h"

#if PG_VERSION_NUM < 130000
#error "tuskml needs PostgreSQL 13 or later"
#endif

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#if PG_VERSION_NUM < 180000
#define pg_noreturn pg_attribute_noreturn()
#endif

/* Reserves the prefix of settings; before 15 it warns of unknown names and no more. */
#if PG_VERSION_NUM < 150000
#define MarkGUCPrefixReserved(prefix) EmitWarningsOnPlaceholders(prefix)
#endif

#endif
