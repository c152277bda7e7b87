package ledger

// maxText limits the total size of a book's distinct IDs, addresses and
// details, in bytes.
const maxText = 1 << 30

// full counts an entry that did not fit into the book.
func (b *Book) full() bool {
	if len(b.clients)+len(b.proxies)+len(b.workers) < b.options.Most && b.bytes < maxText {
		return false
	}
	b.over++
	return true
}

// Over returns the number of entries omitted because the book was full. If it
// is not zero, the account is unreliable.
func (b *Book) Over() int64 { return b.over }

// AddClients adds entries of the generator to a book that may already have
// entries of other stations. Their requests come first, in the order of
// entries, as if they had been added to an empty book.
func (b *Book) AddClients(entries []ClientEntry) {
	first := len(b.clients)
	for _, e := range entries {
		b.AddClient(e)
	}
	number, names := make([]uint32, len(b.names)), make([]string, 0, len(b.names))
	placed := make([]bool, len(b.names))
	place := func(id uint32) {
		if !placed[id] {
			placed[id], number[id] = true, uint32(len(names))
			names = append(names, b.names[id])
		}
	}
	for _, r := range b.clients[first:] {
		place(r.id)
	}
	for id := range b.names {
		place(uint32(id))
	}
	b.names = names
	for text, id := range b.ids {
		b.ids[text] = number[id]
	}
	for i := range b.clients {
		b.clients[i].id = number[b.clients[i].id]
	}
	for i := range b.proxies {
		b.proxies[i].id = number[b.proxies[i].id]
	}
	for i := range b.workers {
		b.workers[i].id = number[b.workers[i].id]
	}
	b.sorted = false
}
