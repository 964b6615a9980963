package firewall_test

import (
	"fmt"
	"slices"
	"strings"
)

// built is a package as go list prints it.
type built struct {
	ImportPath    string
	Standard      bool
	Module        struct{ Path string }
	GoFiles       []string // none in a package of tests only
	Imports, Deps []string
}

// checker holds the packages of a build by import path.
type checker struct {
	module string
	all    map[string]built
}

// own returns the path of a package below our module.
func (c *checker) own(pkg string) (string, bool) {
	if pkg == c.module {
		return ".", true
	}
	return strings.CutPrefix(pkg, c.module+"/")
}

// check returns what is wrong with the imports of p, a package of our module.
func (c *checker) check(p built) []string {
	if len(p.GoFiles) == 0 {
		return nil
	}
	name, _ := c.own(p.ImportPath)
	r, found := rowOf(name)
	if !found {
		return []string{name + " has no row in the import table"}
	}
	var wrong []string
	refuse := func(format string, args ...any) {
		wrong = append(wrong, name+" "+fmt.Sprintf(format, args...)+reason(r.why))
	}
	for _, path := range p.Imports {
		if own, ok := c.own(path); ok {
			if !allows(r, own) {
				refuse("imports %s", own)
			}
		} else if q := c.all[path]; !q.Standard && !allows(r, q.Module.Path) {
			refuse("imports %s of module %s", path, q.Module.Path)
		}
	}
	reach := c.modules(p)
	for _, path := range p.Deps {
		q := c.all[path]
		if isTesting(path) && !mayTest(name) {
			refuse("brings the package %s into every build", path)
		}
		if _, ok := c.own(path); !ok && !q.Standard && !reach[q.Module.Path] {
			refuse("brings the module %s into every build, by %s", q.Module.Path, path)
		}
	}
	slices.Sort(wrong)
	return slices.Compact(wrong)
}

// modules returns the modules that may be in a build of p: those of its row and
// of the rows of all of our packages in it, and what these modules bring.
func (c *checker) modules(p built) map[string]bool {
	reach := map[string]bool{}
	for _, path := range slices.Concat(p.Deps, []string{p.ImportPath}) {
		name, own := c.own(path)
		if !own {
			continue
		}
		r, _ := rowOf(name)
		for m := range strings.FieldsSeq(r.may) {
			reach[m] = true
			for more := range strings.FieldsSeq(brings[m]) {
				reach[more] = true
			}
		}
	}
	return reach
}

func rowOf(pkg string) (row, bool) {
	for _, r := range table {
		if matches(r.pkg, pkg) {
			return r, true
		}
	}
	return row{}, false
}

func allows(r row, target string) bool {
	return slices.ContainsFunc(strings.Fields(r.may), func(m string) bool { return matches(m, target) })
}

func matches(pattern, path string) bool {
	dir, below := strings.CutSuffix(pattern, "/...")
	return path == dir || below && strings.HasPrefix(path, dir+"/")
}

func isTesting(path string) bool { return path == "testing" || strings.HasPrefix(path, "testing/") }

func reason(why string) string {
	if why == "" {
		return ""
	}
	return " (" + why + ")"
}
