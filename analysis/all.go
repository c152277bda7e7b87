package analysis

// All are the kinds of study that there are.
func All() Kinds { return Kinds{dataKind(), controlKind(), scenarioKind()} }
