# Completion of headrace for bash.
_headrace() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        case "$line" in
            :files) compopt -o default 2>/dev/null; return ;;
            :folders) compopt -o dirnames 2>/dev/null; return ;;
            # No blank after a name that can be followed by another one.
            :open) compopt -o nospace 2>/dev/null ;;
            *) COMPREPLY+=("${line%%$'\t'*}") ;;
        esac
    done < <(_HEADRACE_COMPLETE=bash "${COMP_WORDS[0]}" "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
}
complete -o nosort -F _headrace headrace 2>/dev/null || complete -F _headrace headrace
