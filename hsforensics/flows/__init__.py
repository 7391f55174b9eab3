"""One public function for each command: joins the rooms below and returns frozen results."""
