package report

// Items is a document that is a list and no more.
type Items[T any] struct {
	Schema string `json:"schema"`
	Items  []T    `json:"items"`
}

// ItemsOf makes the document of a list.
func ItemsOf[T any](schema string, items []T) Items[T] { return Items[T]{schema, items} }
