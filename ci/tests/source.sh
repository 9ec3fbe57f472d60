# shellcheck shell=bash
# Tests of the scripts themselves: what can be checked without running them.
#
# Reads: BOX, CI_DIR (run)
# Sets:  nothing
# For other files: nothing but tests

all_scripts() {
    printf '%s\n' "$CI_DIR"/{roce,fresh} "$CI_DIR"/lib/*.sh "$CI_DIR"/vm/* "$CI_DIR"/tests/*
}

# The commands that ci/README.md gives.
test_shellcheck_finds_nothing() {
    local commands command
    command -v shellcheck >/dev/null || skip "shellcheck is not installed"
    mapfile -t commands < <(grep -oE '^    shellcheck .+' "$CI_DIR/README.md")
    [ ${#commands[@]} = 2 ]
    cd "$CI_DIR/.." || return
    for command in "${commands[@]}"; do bash -c "$command"; done
}

# Neither in two files nor in one, and not within another function, which would change what a call means when it runs. Lines for fake
# programs are programs of their own.
test_no_function_is_defined_twice() {
    local twice within
    within=$(functions | grep '^ ' || true)
    [ -z "$within" ] || { echo "defined within another function: $within"; return 1; }
    twice=$(functions | sort | uniq -d)
    [ -z "$twice" ] || { echo "defined twice: $twice"; return 1; }
}

functions() {
    all_scripts | xargs sed "/<<'*LINES'*\$/,/^LINES\$/d" | grep -oE '^ *[A-Za-z_][A-Za-z_0-9]*\(\)'
}

# A reader could not find such a call.
test_no_function_is_called_by_a_name_that_is_put_together() {
    if all_scripts | xargs grep -nE '^ *"[a-z_]+_\$[a-z{]|\$\("[a-z_]+_\$'; then return 1; fi
}

test_each_file_says_what_it_reads_and_sets() {
    local file word header missing=''
    while read -r file; do
        header=$(sed '/^[^#]/,$d; /^$/,$d' "$file") # up to the first line that is no comment
        for word in 'Reads:' 'Sets' 'For other files:'; do
            [[ $file == */ci/roce && $word == 'For other files:' || $header == *"# $word"* ]] || missing+=" ${file#"$CI_DIR"/}($word)"
        done
    done < <(all_scripts)
    [ -z "$missing" ] || { echo "missing:$missing"; return 1; }
}

# Above the first line of code, a directive is for the whole file.
test_no_check_of_shellcheck_is_switched_off_for_a_whole_file() {
    local file
    while read -r file; do
        if sed '/^[^#]/,$d' "$file" | grep -H --label="$file" 'shellcheck disable'; then return 1; fi
    done < <(all_scripts)
}

test_each_directive_of_shellcheck_gives_its_reason() {
    if all_scripts | xargs grep -nE '# shellcheck disable=[A-Z0-9,]+ *$'; then return 1; fi
}
