package xds

import "time"

// names numbers the names of one kind. Numbers of names that nobody holds any
// longer are given to new names, so that a fleet that runs for weeks while
// Services come and go holds the names of the last ones only.
type names struct {
	ids  map[string]uint32
	list []string
	lost []int64    // when any proxy lost the name first since it last came, ns since 1970; 0: never
	free []freeName // the longest free first
	kept int        // names after the last sweep
}

// freeName is a number that may be given anew some time after it became free.
type freeName struct {
	id uint32
	at time.Time
}

const (
	// sweepNames is how many names of a kind may be added to twice those that
	// are in use before it is looked which still are.
	sweepNames = 4096
	// quarantine is how long the number of a name that nobody holds stays
	// unused: an answer that has been read but not yet taken may have it among
	// its removals, for milliseconds.
	quarantine = time.Minute
)

// nameID returns the number of a name. c.mu is held.
func (c *catalogue) nameID(k kind, name []byte) uint32 {
	n := &c.names[k]
	if id, ok := n.ids[string(name)]; ok {
		return id
	}
	text := string(name)
	id := uint32(len(n.list))
	if len(n.free) > 0 && time.Since(n.free[0].at) >= c.quarantine {
		id = n.free[0].id
		n.free = n.free[1:]
		n.list[id], n.lost[id] = text, 0 // nobody reads them: no table or set has this number
	} else {
		n.list, n.lost = append(n.list, text), append(n.lost, 0)
	}
	n.ids[text] = id
	return id
}

// name is the inverse of nameID, of a number that is in use.
func (c *catalogue) name(k kind, id uint32) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.names[k].list[id]
}

// crowded says whether it is time to look which names are in use. c.mu is held.
func (c *catalogue) crowded() bool {
	for k := range c.names {
		if n := &c.names[k]; len(n.ids) > 2*n.kept+sweepNames {
			return true
		}
	}
	return false
}

// freeNames takes back the numbers of names that no content and no set has. What
// was worked out for other proxies is forgotten with them: messages that remove
// such a name are remembered by its number.
func (c *catalogue) freeNames() {
	freed := false
	c.mu.Lock()
	var used [kinds][]uint64 // a bit for each number
	for k := range used {
		used[k] = make([]uint64, len(c.names[k].list)/64+1)
	}
	mark := func(k kind, ids ...uint32) {
		for _, id := range ids {
			used[k][id/64] |= 1 << (id % 64)
		}
	}
	for _, p := range c.contents {
		one := p.Value()
		if one == nil {
			continue
		}
		mark(one.kind, one.name)
		mark(referred(one.kind), one.refs...)
		mark(ecds, one.exts...)
	}
	for _, p := range c.sets {
		if set := p.Value(); set != nil {
			mark(set.kind, set.ids...)
		}
	}
	now := time.Now()
	for k := range c.names {
		n := &c.names[k]
		for text, id := range n.ids {
			if used[k][id/64]&(1<<(id%64)) == 0 {
				delete(n.ids, text)
				n.free = append(n.free, freeName{id, now})
				freed = true
			}
		}
		n.kept = len(n.ids)
	}
	c.mu.Unlock()
	if freed {
		c.forget()
	}
}

// referred is the kind of what contents of a kind refer to.
func referred(k kind) kind {
	if k == lds {
		return rds
	}
	return eds
}
