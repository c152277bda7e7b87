package istio

import "github.com/meshtrial/meshtrial/internal/note"

// noteFieldIgnored names a field of existing objects that a second version of Istio does not know:
// the version, the field, the objects' kind, one of them, and the number of others (nil: none).
var noteFieldIgnored = note.Define("field_ignored", "Istio %s ignores the field %s, which it does not know, of %s %v[ and %d more]")
