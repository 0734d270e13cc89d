"""Services shared by routes and pages: the line to the leader, limited views, previews, merging."""
