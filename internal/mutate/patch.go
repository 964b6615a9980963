package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// patch is one broken rule.
type patch struct {
	name string // of the file, without .patch
	file string
	rule string
	test []string // the command that must notice: go test, packages, -run, a pattern
}

// readPatch reads the header of a patch: "# rule:" and "# test:" lines before
// the first line of the diff.
func readPatch(file string) (patch, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return patch{}, err
	}
	p, err := parsePatch(string(text))
	p.name, p.file = strings.TrimSuffix(filepath.Base(file), ".patch"), file
	if err != nil {
		return p, fmt.Errorf("mutate: %s: %w", file, err)
	}
	return p, nil
}

func parsePatch(text string) (patch, error) {
	var p patch
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "diff ") || strings.HasPrefix(line, "--- ") {
			break
		}
		if rule, ok := strings.CutPrefix(line, "# rule:"); ok {
			p.rule = strings.TrimSpace(rule)
		}
		if test, ok := strings.CutPrefix(line, "# test:"); ok {
			if p.test != nil {
				return p, fmt.Errorf("two lines start with %q", "# test:")
			}
			words, err := split(test)
			if err != nil {
				return p, err
			}
			p.test = words
		}
	}
	switch {
	case p.rule == "":
		return p, fmt.Errorf("no line starts with %q", "# rule:")
	case len(p.test) < 2 || p.test[0] != "go" || p.test[1] != "test":
		return p, fmt.Errorf("no line starts with %q", "# test: go test")
	case !hasFlag(p.test, "run"):
		return p, fmt.Errorf("%q names no test with -run", strings.Join(p.test, " "))
	}
	return p, nil
}

// hasFlag tells whether a go test command sets a flag, in any of its spellings.
func hasFlag(command []string, name string) bool {
	return slices.ContainsFunc(command, func(word string) bool {
		flag, _, _ := strings.Cut(word, "=")
		return flag == "-"+name || flag == "--"+name
	})
}

// split cuts a command into words at spaces outside of quotes, as a shell does.
func split(command string) ([]string, error) {
	var words []string
	var word strings.Builder
	quote, inWord := rune(0), false
	for _, r := range command {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == ' ' || r == '\t':
			if inWord {
				words = append(words, word.String())
			}
			word.Reset()
			inWord = false
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quote is left open in %q", command)
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}
