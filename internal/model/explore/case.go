package explore

// Case is a model with everything fixed, and the verdict it must have.
type Case struct {
	Model  string // one word
	Name   string // what is special about this case
	Bounds string // how far it is explored
	// Breaks is the rule that the search must find broken. It is empty if the
	// case must hold.
	Breaks string
	// Big cases have more than about 5 million states. They are searched with
	// Options.Hashed, and not by the tests.
	Big bool
	Run func(Options) Result
}

// Expected is the verdict the case must have, in the words of Result.Verdict.
func (c Case) Expected() string {
	if c.Breaks == "" {
		return "holds"
	}
	return "violates " + c.Breaks
}

// Key tells cases apart.
func (c Case) Key() string { return c.Model + " | " + c.Name + " | " + c.Bounds }
