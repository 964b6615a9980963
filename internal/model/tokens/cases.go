package tokens

import (
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/internal/model/explore"
)

// Cases are the configurations worth exploring.
func Cases() []explore.Case {
	var cases []explore.Case
	add := func(breaks, name string, c Config) {
		c.Block = max(c.Block, 1)
		cases = append(cases, explore.Case{
			Model: "tokens", Name: name, Bounds: c.bounds(), Breaks: breaks, Run: c.run,
		})
	}
	big := func(name string, c Config) {
		add("", name, c)
		cases[len(cases)-1].Big = true
	}
	const order, unique = "ORDER", "UNIQUE"

	// What must not be built.
	add(order, "largest base, no write-back", Config{Nodes: 3, Attempts: 2, Rule: largest, Marks: 2, OrderOnly: true})
	add(order, "token handed out before write-back", Config{Nodes: 3, Attempts: 2, Rule: handedOutEarly, Marks: 2, OrderOnly: true})
	add(unique, "write-back without owner check", Config{Nodes: 3, Attempts: 2, Rule: anyOwner, Marks: 2})
	add(unique, "write-back counts unseen grants", Config{Nodes: 3, Attempts: 2, Rule: unseenCounts, Marks: 2})
	add(unique, "base agreed by a minority", Config{Nodes: 5, Attempts: 2, Rule: minorityAgreed, Marks: 2})
	add(unique, "write-back counts where a larger base is stored, acquire re-sent",
		Config{Nodes: 3, Attempts: 2, Rule: agreed, Marks: 2, Resend: true, LargerCounts: true})
	add(order, "largest base, no write-back", Config{Nodes: 3, Attempts: 2, Rule: largest, Marks: 2, Block: 3, OrderOnly: true})
	add(order, "token handed out before write-back", Config{Nodes: 3, Attempts: 2, Rule: handedOutEarly, Marks: 2, Block: 3, OrderOnly: true})
	add(unique, "write-back without owner check", Config{Nodes: 3, Attempts: 2, Rule: anyOwner, Marks: 2, Block: 3})
	add(unique, "mark is the end of a block, write-back stores the base",
		Config{Nodes: 3, Attempts: 2, Rule: agreed, Marks: 2, Block: 3, MarkIsEnd: true})

	// What is built: marks store the base, every grant looks at the node's clock.
	add("", "agreed base or write-back", Config{Nodes: 3, Attempts: 2, Marks: 2, Raises: 1, LostStores: true})
	add("", "agreed base or write-back", Config{Nodes: 3, Attempts: 2, Marks: 1, Proposals: []uint16{0, 4}, Block: 3})
	add("", "agreed base or write-back", Config{Nodes: 3, Attempts: 2, Marks: 1, Times: []uint16{0, 5}, Block: 3})
	add("", "agreed base or write-back", Config{Nodes: 3, Attempts: 2, Marks: 1, Times: []uint16{0, 100}, Block: 64})
	add("", "agreed base or write-back", Config{Nodes: 3, Attempts: 2, Marks: 1, Proposals: []uint16{0, 5}, Times: []uint16{0, 7}, Block: 3, Raises: 1, Lean: true})
	add("", "agreed base or write-back", Config{Nodes: 3, Attempts: 3, Block: 3, Lean: true})
	add("", "agreed base or write-back", Config{Nodes: 3, Attempts: 3, Marks: 1, Proposals: []uint16{0, 3}, Lean: true})
	add("", "agreed base or write-back", Config{Nodes: 5, Attempts: 2, Marks: 1, Raises: 1, Lean: true})
	add("", "agreed base or write-back, acquire re-sent", Config{Nodes: 3, Attempts: 2, Marks: 1, Block: 3, Resend: true})
	add("", "write-back counts unseen grants that store no larger base", Config{Nodes: 3, Attempts: 2, Rule: unseenChecked, Marks: 2})
	add("", "write-back always", Config{Nodes: 3, Attempts: 2, Rule: alwaysWriteBack, Marks: 2, Raises: 1})
	add("", "median of all answers", Config{Nodes: 3, Attempts: 2, Rule: median, Marks: 2, OrderOnly: true})

	// The same further out.
	add(unique, "median of all answers", Config{Nodes: 5, Attempts: 2, Rule: median, Marks: 4, Raises: 1, Lean: true})
	cases[len(cases)-1].Big = true
	big("median of all answers", Config{Nodes: 3, Attempts: 3, Rule: median, Marks: 1, Raises: 1, Lean: true, OrderOnly: true})
	big("median of all answers", Config{Nodes: 3, Attempts: 2, Rule: median, Marks: 3, Raises: 2, OrderOnly: true})
	big("median of all answers", Config{Nodes: 5, Attempts: 2, Rule: median, Marks: 2, Raises: 1, Lean: true, OrderOnly: true})
	big("write-back always", Config{Nodes: 3, Attempts: 2, Rule: alwaysWriteBack, Marks: 3, Raises: 2, LostStores: true})
	big("write-back always", Config{Nodes: 3, Attempts: 3, Rule: alwaysWriteBack, Marks: 1, Raises: 1, Lean: true})
	big("agreed base or write-back", Config{Nodes: 3, Attempts: 2, Marks: 3, Raises: 2, LostStores: true})
	big("agreed base or write-back", Config{Nodes: 3, Attempts: 2, Marks: 2, Proposals: []uint16{0, 2, 5, 6}, Raises: 2, LostStores: true})
	big("agreed base or write-back", Config{Nodes: 3, Attempts: 2, Marks: 2, Proposals: []uint16{0, 4}, Block: 3, Raises: 2, LostStores: true})
	big("agreed base or write-back", Config{Nodes: 3, Attempts: 3, Marks: 1, Raises: 1, Lean: true})
	big("agreed base or write-back", Config{Nodes: 3, Attempts: 3, Marks: 1, Proposals: []uint16{0, 4}, Block: 3, Lean: true})
	big("agreed base or write-back", Config{Nodes: 3, Attempts: 3, Marks: 1, Times: []uint16{0, 5}, Block: 3, Lean: true})
	big("agreed base or write-back", Config{Nodes: 3, Attempts: 4, Lean: true})
	big("agreed base or write-back, acquire re-sent", Config{Nodes: 3, Attempts: 2, Marks: 2, Resend: true})
	big("agreed base or write-back, acquire re-sent", Config{Nodes: 3, Attempts: 2, Marks: 2, Block: 3, Times: []uint16{0, 7}, Resend: true})
	return cases
}

func (c Config) bounds() string {
	b := []string{fmt.Sprintf("%d nodes", c.Nodes), fmt.Sprintf("%d attempts", c.Attempts), fmt.Sprintf("block %d", c.Block)}
	add := func(on bool, format string, args ...any) {
		if on {
			b = append(b, fmt.Sprintf(format, args...))
		}
	}
	add(c.Marks > 0, "marks 0..%d", c.Marks)
	add(c.Raises > 0, "%d raises", c.Raises)
	add(c.Proposals != nil, "proposals %v", c.Proposals)
	add(c.Times != nil, "times %v", c.Times)
	add(c.LostStores, "lost stores")
	add(c.Lean, "lean")
	add(c.OrderOnly, "ORDER only")
	return strings.Join(b, ", ")
}
