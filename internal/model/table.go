package model

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/holdfast-go/holdfast/internal/model/explore"
)

const tableHead = `# Model results

Written by ` + "`go run ./internal/model/run`" + `, which says how to repeat a row. A rule that holds, holds in every
reachable state within the bounds. Rows marked "128 bit" compared fingerprints of states, the others whole states.
Times are of two cores that had other work as well; everything else is the same in every run.

| model | case | bounds | expected | verdict | states | steps | depth | time | compared |
|---|---|---|---|---|---|---|---|---|---|
`

// Table has the rows of the results by the key of their case.
type Table map[string]string

// Row is the line of one case.
func Row(c explore.Case, r explore.Result) string {
	compared, verdict := "exact", r.Verdict()
	if c.Big {
		compared = "128 bit"
	}
	if verdict != c.Expected() {
		verdict = "**" + verdict + "**"
	}
	return fmt.Sprintf("| %s | %s | %s | %d | %d | %d | %.1f s | %s |",
		c.Key(), c.Expected(), verdict, r.States, r.Steps, r.Depth, r.Took.Seconds(), compared)
}

// ReadTable reads the rows of earlier runs. A file that does not exist has none.
func ReadTable(file string) (Table, error) {
	t := Table{}
	if file == "" {
		return t, nil
	}
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		cells := strings.Split(line, " | ")
		if strings.HasPrefix(line, "| ") && len(cells) > 3 && !strings.HasPrefix(line, "| model |") {
			t[strings.TrimPrefix(strings.Join(cells[:3], " | "), "| ")] = line
		}
	}
	return t, nil
}

// WriteTable writes the rows in the order of Cases. Rows of cases that are gone
// are dropped.
func WriteTable(file string, t Table) error {
	if file == "" {
		return nil
	}
	var b strings.Builder
	b.WriteString(tableHead)
	for _, c := range Cases() {
		if row, ok := t[c.Key()]; ok {
			b.WriteString(row + "\n")
		}
	}
	return os.WriteFile(file, []byte(b.String()), 0o644)
}
