"""What routes and pages share: the line to the leader, limited views, previews, merging."""
