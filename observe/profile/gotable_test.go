package profile

import (
	"encoding/binary"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// madeTable is a table as Go 1.20 lays it out, of functions at these places with
// names at those.
func madeTable(places, names []uint32, end uint32, text string) []byte {
	const head = 8 + 8*8
	order := binary.LittleEndian
	data := order.AppendUint32(nil, goMagic120)
	data = append(data, 0, 0, 1, 8)
	funcs := head + len(text)
	for _, v := range []int{len(places), 0, 0, head, 0, 0, 0, funcs} {
		data = order.AppendUint64(data, uint64(v))
	}
	data = append(data, text...)
	first := 4 * (2*len(places) + 1)
	for i, p := range places {
		data = order.AppendUint32(order.AppendUint32(data, p), uint32(first+8*i))
	}
	data = order.AppendUint32(data, end)
	for i, p := range places {
		data = order.AppendUint32(order.AppendUint32(data, p), names[i])
	}
	return data
}

func TestGoTable(t *testing.T) {
	text := "a\x00bb\x00"
	table, relative, ok := newGoTable(madeTable([]uint32{0x10, 0x20}, []uint32{0, 2}, 0x28, text), binary.LittleEndian)
	if !ok || !relative {
		t.Fatalf("relative %v, ok %v", relative, ok)
	}
	table.begin = 0x1000
	for address, want := range map[uint64]string{0x10: "", 0x100f: "", 0x1010: "a", 0x101f: "a", 0x1020: "bb", 0x1027: "bb", 0x1028: "", 1 << 40: ""} {
		if got, found := table.find(address); got != want || found != (want != "") {
			t.Errorf("%x: %q, %v", address, got, found)
		}
	}
}

// Names that overlap, and are without an end, cost nothing before they are asked
// for, and then no more than a name may be long.
func TestGoTableOfOverlappingNames(t *testing.T) {
	const n = 50_000
	var places, names []uint32
	for i := range uint32(n) {
		places, names = append(places, i), append(names, i)
	}
	table, _, ok := newGoTable(madeTable(places, names, n, strings.Repeat("x", 1<<20)), binary.LittleEndian)
	if !ok {
		t.Fatal("the table is refused")
	}
	if name, found := table.find(7); found || name != "" {
		t.Errorf("a name of %d bytes", len(name))
	}
}

// Whatever a table says, nothing is read beyond it.
func TestGoTableIsBounded(t *testing.T) {
	good := madeTable([]uint32{0x10, 0x20, 0x30}, []uint32{0, 2, 5}, 0x40, "a\x00bb\x00ccc\x00")
	rapid.Check(t, func(t *rapid.T) {
		data := append([]byte(nil), good...)
		for range rapid.IntRange(0, 6).Draw(t, "changes") {
			data[rapid.IntRange(8, len(data)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		data = data[:rapid.IntRange(0, len(data)).Draw(t, "length")]
		table, _, ok := newGoTable(data, binary.LittleEndian)
		if !ok {
			return
		}
		if name, found := table.find(rapid.Uint64().Draw(t, "address") % 0x60); found && (name == "" || len(name) > len(data)) {
			t.Errorf("%q", name)
		}
	})
}
