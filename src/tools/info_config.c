/* mrail info --config shows the parameters of the transport. */
#include "config.h"
#include "tools/info.h"

#include "rail/params.h"
#include "base/json.h"

#include <string.h>
#include <unistd.h>

static void print_text(void *arg, const mrail_param_info_t *info)
{
    printf("%s=%s\n", info->name, info->value);
    printf("    %s; default %s%s\n", info->type,
           (*info->default_value != '\0') ? info->default_value : "empty",
           info->is_set ? "; set in the environment" : "");
    for (const char *line = info->help; *line != '\0';) {
        size_t length = strcspn(line, "\n");

        printf("    %.*s\n", (int)length, line);
        line += length;
        line += (*line == '\n');
    }
    putchar('\n');
}

static void print_json(void *arg, const mrail_param_info_t *info)
{
    mrail_json_t *json = arg;

    mrail_json_newline(json);
    mrail_json_object(json, NULL);
    mrail_json_string(json, "name", info->name);
    mrail_json_string(json, "value", info->value);
    mrail_json_string(json, "default", info->default_value);
    mrail_json_bool(json, "is_set", info->is_set);
    mrail_json_string(json, "type", info->type);
    mrail_json_string(json, "help", info->help);
    mrail_json_object_end(json);
}

int mrail_info_config(int json)
{
    mrail_json_t writer = mrail_json_to(stdout);
    mrail_config_t config;

    if (json) {
        mrail_json_object(&writer, NULL);
        mrail_json_array(&writer, "parameters");
        mrail_config_each(print_json, &writer);
        mrail_json_array_end(&writer);
        mrail_json_object_end(&writer);
        mrail_json_end(&writer);
    } else {
        mrail_config_each(print_text, NULL);
        printf("UCX adds variables of its own: ucx_info -c -f | grep "
               "UCX_MRAIL\n");
    }
    mrail_info_unknown_variables();
    /* The parser prints one line for the first invalid value. */
    if (mrail_config_from_env(&config) != 0) {
        return MRAIL_TOOL_USAGE;
    }
    mrail_config_cleanup(&config);
    return 0;
}
