package profile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"sort"
)

// readGo reads the table by which Go's runtime names functions, which no
// linker leaves out.
func (s *Symbols) readGo(f *elf.File) error {
	table := f.Section(".gopclntab")
	if table == nil {
		table = f.Section(".data.rel.ro.gopclntab")
	}
	text := f.Section(".text")
	if table == nil || text == nil || table.Type == elf.SHT_NOBITS {
		return ErrNoSymbols
	}
	data, err := sectionData(table, 2*maxSection)
	if err != nil {
		return err
	}
	t, relative, ok := newGoTable(data, f.ByteOrder)
	if ok && relative {
		t.begin, ok = goText(f, table, text)
	}
	if !ok {
		return ErrNoSymbols // names would be guesses
	}
	s.table, s.Type = t, TypeGo
	return nil
}

// goTable is Go's table of functions (runtime/symtab.go, since Go 1.16). Its
// names are read when they are asked for: those of a made-up table may overlap,
// so that all of them together would fill any memory.
type goTable struct {
	order binary.ByteOrder
	data  []byte
	names uint64 // where the names are
	funcs uint64 // where functions are, sorted by address
	count uint64
	word  uint64 // bytes of an address
	field uint64 // bytes of what a function's entry has two of
	begin uint64 // what addresses count from
}

// Magic numbers (internal/abi/symtab.go).
const (
	goMagic116 = 0xfffffffa // addresses are whole
	goMagic118 = 0xfffffff0 // addresses count from where Go's code begins
	goMagic120 = 0xfffffff1
)

// newGoTable looks at a table's head. relative tells whether its addresses
// count from where Go's code begins.
func newGoTable(data []byte, order binary.ByteOrder) (t *goTable, relative, ok bool) {
	if len(data) < 16 || data[4] != 0 || data[5] != 0 || data[7] != 4 && data[7] != 8 {
		return nil, false, false
	}
	t = &goTable{order: order, data: data, word: uint64(data[7]), field: 4}
	head := func(i uint64) uint64 { v, _ := t.number(8+i*t.word, t.word); return v }
	switch order.Uint32(data) {
	case goMagic116:
		t.names, t.funcs, t.field = head(2), head(6), t.word
	case goMagic118, goMagic120:
		t.names, t.funcs, relative = head(3), head(7), true
	default:
		return nil, false, false
	}
	t.count = head(0)
	// After the last entry comes the address at which the last function ends.
	size := uint64(len(data))
	ok = t.count > 0 && t.count < size && t.names < size && t.funcs < size && (2*t.count+1)*t.field <= size-t.funcs
	return t, relative, ok
}

// number reads bytes as one; false beyond the end.
func (t *goTable) number(at, size uint64) (uint64, bool) {
	if n := uint64(len(t.data)); at > n || size > n-at {
		return 0, false
	}
	if size == 4 {
		return uint64(t.order.Uint32(t.data[at:])), true
	}
	return t.order.Uint64(t.data[at:]), true
}

// find names the function that an address lies in.
func (t *goTable) find(address uint64) (string, bool) {
	entry := func(i uint64) uint64 { v, _ := t.number(t.funcs+2*i*t.field, t.field); return v }
	if address < t.begin {
		return "", false
	}
	address -= t.begin
	after := uint64(sort.Search(int(t.count)+1, func(i int) bool { return entry(uint64(i)) > address }))
	if after == 0 || after > t.count { // before the first, or behind the last
		return "", false
	}
	// A function begins with its address and the place of its name.
	of, _ := t.number(t.funcs+(2*after-1)*t.field, t.field)
	if of > uint64(len(t.data)) {
		return "", false
	}
	name, ok := t.number(t.funcs+of+t.field, 4)
	if !ok || t.names+name >= uint64(len(t.data)) {
		return "", false
	}
	text := t.data[t.names+name:]
	end := bytes.IndexByte(text[:min(maxExport, len(text))], 0)
	if end <= 0 {
		return "", false
	}
	return string(text[:end]), true
}

// Words of the runtime's moduledata, in the same place since Go 1.16
// (runtime/symtab.go): it begins with the address of the table of functions.
const (
	moduleText = 22 // where Go's functions begin
	moduleEnd  = 23
)

// goText is the address that places in Go's table are counted from. Go's own
// linker puts the functions first in the section of all code. A program linked
// by the C compiler (with cgo) has C's start before them, so that every name
// would be that of another function; there the runtime's own note of it is
// asked. False if nothing says.
func goText(f *elf.File, table, text *elf.Section) (uint64, bool) {
	m := module{f: f, word: 8, table: table.Addr, text: text}
	if f.Class == elf.ELFCLASS32 {
		m.word = 4
	}
	if s := f.Section(".go.module"); s != nil { // since Go 1.26
		if begin, ok := m.written(s); ok {
			return begin, true
		}
	}
	for _, s := range f.Sections {
		if s != table && s.Type == elf.SHT_PROGBITS && s.Flags&(elf.SHF_ALLOC|elf.SHF_WRITE) == elf.SHF_ALLOC|elf.SHF_WRITE {
			if begin, ok := m.written(s); ok {
				return begin, true
			}
		}
	}
	for _, s := range f.Sections {
		if s.Type == elf.SHT_RELA && f.Class == elf.ELFCLASS64 {
			if begin, ok := m.relocated(s); ok {
				return begin, true
			}
		}
	}
	// C's start and C's compiler leave sections of their own.
	for _, name := range []string{".init", ".init_array", ".fini_array", ".eh_frame"} {
		if f.Section(name) != nil {
			return 0, false
		}
	}
	return text.Addr, true
}

// module finds the runtime's moduledata.
type module struct {
	f     *elf.File
	word  int // bytes of an address
	table uint64
	text  *elf.Section
}

// holds tells whether code may begin and end there.
func (m *module) holds(begin, end uint64) bool {
	return begin >= m.text.Addr && begin < end && end-m.text.Addr <= m.text.Size
}

// written looks for it in a section of data whose addresses are written out.
func (m *module) written(s *elf.Section) (uint64, bool) {
	data, err := sectionData(s, maxSection/2)
	if err != nil {
		return 0, false
	}
	at := func(word int) uint64 {
		if m.word == 4 {
			return uint64(m.f.ByteOrder.Uint32(data[4*word:]))
		}
		return m.f.ByteOrder.Uint64(data[8*word:])
	}
	for i := 0; (i+moduleEnd+1)*m.word <= len(data); i++ {
		if at(i) == m.table && m.holds(at(i+moduleText), at(i+moduleEnd)) {
			return at(i + moduleText), true
		}
	}
	return 0, false
}

// relocated looks for it among the addresses that the loader writes into a
// program which runs anywhere (PIE).
func (m *module) relocated(s *elf.Section) (uint64, bool) {
	kind, ok := map[elf.Machine]uint32{
		elf.EM_X86_64: uint32(elf.R_X86_64_RELATIVE), elf.EM_AARCH64: uint32(elf.R_AARCH64_RELATIVE), elf.EM_RISCV: uint32(elf.R_RISCV_RELATIVE),
		elf.EM_LOONGARCH: uint32(elf.R_LARCH_RELATIVE), elf.EM_PPC64: uint32(elf.R_PPC64_RELATIVE), elf.EM_S390: uint32(elf.R_390_RELATIVE),
	}[m.f.Machine]
	data, err := sectionData(s, maxSection/2)
	if err != nil || !ok {
		return 0, false
	}
	const size = 24 // offset, info, addend
	at := func(i int) (offset, value uint64, relative bool) {
		b := data[i*size:]
		return m.f.ByteOrder.Uint64(b), m.f.ByteOrder.Uint64(b[16:]), uint32(m.f.ByteOrder.Uint64(b[8:])) == kind
	}
	value := func(of uint64) uint64 {
		for i := range len(data) / size {
			if offset, value, relative := at(i); relative && offset == of {
				return value
			}
		}
		return 0
	}
	// Few places hold the table's address: the note of the module, and what
	// else points to it. A file with more of them is made up.
	tries := 0
	for i := range len(data) / size {
		offset, v, relative := at(i)
		if !relative || v != m.table {
			continue
		}
		if tries++; tries > 16 {
			break
		}
		begin, end := value(offset+moduleText*8), value(offset+moduleEnd*8)
		if m.holds(begin, end) {
			return begin, true
		}
	}
	return 0, false
}
