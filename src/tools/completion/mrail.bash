# Completion of mrail for bash. The commands themselves provide the words
# (`mrail --list-commands`, `mrail COMMAND --list-options`), which therefore
# always match the installed version.
# shellcheck shell=bash

# Prints the words before the current one that name the command, such as "top"
# or "soft ctl".
_mrail_command()
{
    local word=${COMP_WORDS[1]-}

    if [[ $word =~ ^(soft|lab)$ && ${COMP_WORDS[2]-} =~ ^(ctl|status)$ &&
        $COMP_CWORD -gt 2 ]]; then
        word="$word ${COMP_WORDS[2]}"
    fi
    echo "$word"
}

_mrail_options()
{
    # shellcheck disable=SC2086 # "soft ctl" is two words
    command mrail $1 --list-options 2>/dev/null
}

# Prints the value that option $2 of command $1 takes, such as "FILE" or "a|b",
# or nothing.
_mrail_value()
{
    local names value

    while IFS=$'\t' read -r names value _; do
        if [[ "|$names|" == *"|$2|"* && $value != \[* ]]; then
            echo "$value"
            return
        fi
    done < <(_mrail_options "$1")
}

_mrail()
{
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local name value

    COMPREPLY=()
    if [[ $COMP_CWORD == 1 ]]; then
        mapfile -t COMPREPLY < <(compgen -W \
            "help --help --version $(command mrail --list-commands | cut -f 1)" \
            -- "$current")
        return
    fi
    name=$(_mrail_command)
    [[ $name != help ]] || name=
    value=$(_mrail_value "$name" "$previous")
    if [[ $value == *'|'* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "${value//|/ }" -- "$current")
    elif [[ -n $value && $value != *FILE* && $value != DIR ]]; then
        return
    elif [[ -z $value && $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W \
            "$(_mrail_options "$name" | cut -f 1 | tr '|' ' ')" -- "$current")
    elif [[ $name == soft && $COMP_CWORD == 2 ]]; then
        mapfile -t COMPREPLY < <(compgen -W 'ctl status' -- "$current")
    elif [[ $name == bench && $COMP_CWORD == 2 ]]; then
        mapfile -t COMPREPLY < <(compgen -W 'alltoallv moe p2p' -- "$current")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
    fi
}

complete -o filenames -F _mrail mrail
