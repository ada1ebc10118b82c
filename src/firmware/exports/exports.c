/* SPDX-License-Identifier: Apache-2.0 */
#include "firmware/exports/exports.h"

#include "firmware/exports/exports_impl.h"

#include <assert.h>
#include <string.h>

static_assert(sizeof(c7x_any_fn) == sizeof(void *), "one address space for code and data");

static void *find_export(const struct c7x_symbol_source *source, const char *name)
{
    const struct c7x_export *export = c7x_export_lookup(name, strlen(name));
    void *address;
    (void)source;
    if (export == NULL)
        return NULL;
    memcpy(&address, &export->address, sizeof(address));
    return address;
}

const struct c7x_symbol_source c7x_exports = {.find = find_export, .title = c7x_export_title};

const char *c7x_export_group(const char *name)
{
    const struct c7x_export *export = c7x_export_lookup(name, strlen(name));
    return export == NULL ? NULL : export->group;
}
