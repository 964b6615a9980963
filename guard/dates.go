package guard

// dates is a heap of holds by the time at which they need attention. Each has
// four children, and the time is kept beside the hold: with thousands of leases
// most of the cost is memory that is not in the cache.
type dates []date

type date struct {
	at instant
	h  *hold
}

// set adds h, or moves it.
func (d *dates) set(h *hold, at instant) {
	if h.slot < 0 {
		h.slot = int32(len(*d)) // fewer than 2 billion: they would not fit into memory
		*d = append(*d, date{at, h})
	} else {
		(*d)[h.slot].at = at
	}
	d.fix(int(h.slot))
}

func (d *dates) remove(h *hold) {
	i := int(h.slot)
	if i < 0 {
		return
	}
	h.slot = -1
	last := len(*d) - 1
	moved := (*d)[last]
	(*d)[last] = date{}
	*d = (*d)[:last]
	if i < last {
		(*d)[i] = moved
		moved.h.slot = int32(i)
		d.fix(i)
	}
}

// fix moves the date in slot i to where it belongs.
func (d dates) fix(i int) {
	moving := d[i]
	for i > 0 {
		parent := (i - 1) / 4
		if d[parent].at <= moving.at {
			break
		}
		d.put(i, d[parent])
		i = parent
	}
	for {
		least := 4*i + 1
		if least >= len(d) {
			break
		}
		for child := least + 1; child < min(4*i+5, len(d)); child++ {
			if d[child].at < d[least].at {
				least = child
			}
		}
		if d[least].at >= moving.at {
			break
		}
		d.put(i, d[least])
		i = least
	}
	d.put(i, moving)
}

func (d dates) put(i int, what date) {
	d[i] = what
	what.h.slot = int32(i)
}
