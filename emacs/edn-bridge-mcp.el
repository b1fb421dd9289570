;;; edn-bridge-mcp.el --- MCP servers  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; A buffer of the MCP servers that a session uses: where each
;; stands, what it offers, and why it failed.  Keys switch a server or a
;; single tool off and on for the session, start a server again, and open
;; the configuration.  What servers say of themselves is shown as data.
;;
;; Also what `edn-bridge-complete' offers of servers: the arguments of
;; their prompts, which are slash commands, and their resources after @.

;;; Code:

(require 'cl-lib)
(require 'subr-x)
(require 'edn-bridge-chat)
(require 'edn-bridge-complete)
(require 'edn-bridge-input)
(require 'edn-bridge-view)

(defgroup edn-bridge-mcp nil
  "MCP servers."
  :group 'edn-bridge)

(defvar-local edn-bridge-mcp--chat nil
  "The chat buffer that this buffer is about.")

(defvar-local edn-bridge-mcp--servers nil
  "The servers as the bridge listed them.")

(defvar-local edn-bridge-mcp--open nil
  "Names of the servers whose tools are shown.")

(defvar-local edn-bridge-mcp--completions nil
  "Answers of servers to completions: an alist from params to values.
Values are nil while the servers are asked.")

(edn-bridge-define-view-mode edn-bridge-mcp-mode special-mode "MCP"
  "Major mode of the MCP servers that a session uses."
  :keys (("x" edn-bridge-mcp-toggle "off or on")
         ("SPC" edn-bridge-mcp-toggle)
         ("RET" edn-bridge-mcp-fold "its tools")
         ("TAB" edn-bridge-mcp-fold)
         ("r" edn-bridge-mcp-restart "restart")
         ("t" edn-bridge-mcp-restart)
         ("e" edn-bridge-mcp-configure "config")
         ("n" edn-bridge-mcp-next)
         ("p" edn-bridge-mcp-previous))
  :group 'edn-bridge-mcp
  (setq-local truncate-lines nil
              word-wrap t
              revert-buffer-function #'edn-bridge-mcp--revert))

;;;###autoload
(defun edn-bridge-mcp ()
  "Show the MCP servers that this chat's session uses."
  (interactive nil edn-bridge-chat-mode)
  (edn-bridge-chat-current)
  (let ((chat (current-buffer))
        (buffer (get-buffer-create
                 (format "*%s servers*" (edn-bridge-chat-name)))))
    (with-current-buffer buffer
      (edn-bridge-mcp-mode)
      (edn-bridge-visible-setup)
      (setq edn-bridge-mcp--chat chat)
      (edn-bridge-mcp--revert))
    (pop-to-buffer buffer)))

(defun edn-bridge-mcp--ask (op params show)
  "Send OP with PARAMS, and call SHOW with the answer in this buffer."
  (edn-bridge-chat-ask-for edn-bridge-mcp--chat op params show))

(defun edn-bridge-mcp--revert (&rest _)
  "Ask for the servers again and show them."
  (edn-bridge-mcp--ask "list_mcp" nil
                       (lambda (data)
                         (setq edn-bridge-mcp--servers
                               (append (plist-get data :servers) nil))
                         (edn-bridge-mcp--show))))

(defun edn-bridge-mcp--on-updated (data)
  "Look again at the servers of this chat, of which DATA tells the states."
  (edn-bridge-mcp--note-names (plist-get data :servers))
  (setq edn-bridge-mcp--completions nil)
  (let ((chat (current-buffer)))
    (dolist (buffer (buffer-list))
      (with-current-buffer buffer
        (when (and (derived-mode-p 'edn-bridge-mcp-mode)
                   (eq edn-bridge-mcp--chat chat))
          (edn-bridge-mcp--revert)))))
  ;; Their prompts are slash commands.
  (edn-bridge-complete-fetch-commands))

;;;; What is shown

(defun edn-bridge-mcp--show ()
  "Show the servers of this buffer, with point where it was."
  (let ((inhibit-read-only t)
        (place (edn-bridge-mcp--place))
        (line (line-number-at-pos)))
    (erase-buffer)
    (mapc #'edn-bridge-mcp--insert edn-bridge-mcp--servers)
    ;; A long line goes on below its text.
    (put-text-property (point-min) (point-max) 'wrap-prefix "          ")
    (when (= (point-min) (point-max))
      (insert "No MCP servers are configured.  e opens the configuration:\n\n"
              "  {:mcp {\"files\" {:command [\"npx\" \"-y\" \"@modelcontextprotocol/server-filesystem\" \".\"]}}}\n"))
    (edn-bridge-mcp--go-to place line)
    ;; The window may show another place than the buffer's.
    (dolist (window (get-buffer-window-list nil nil t))
      (set-window-point window (point)))))

(defun edn-bridge-mcp--place ()
  "Return the name of the server and of the tool, or nil, at point."
  (cons (plist-get (edn-bridge-mcp--at-point 'edn-bridge-mcp-server) :name)
        (plist-get (edn-bridge-mcp--at-point 'edn-bridge-mcp-tool) :name)))

(defun edn-bridge-mcp--go-to (place line)
  "Go to the line of PLACE, or where it is gone, to LINE."
  (goto-char (point-min))
  (while (and (not (eobp))
              (not (equal (edn-bridge-mcp--place) place)))
    (forward-line))
  (when (or (eobp) (not (car place)))
    (goto-char (point-min))
    (forward-line (1- line))
    (when (and (eobp) (not (bobp)))
      (forward-line -1))))

(defun edn-bridge-mcp--at-point (property)
  "Return PROPERTY of the line at point."
  (get-text-property (line-beginning-position) property))

(defun edn-bridge-mcp--on-p (thing)
  "Return non-nil if THING, a server or a tool, is switched on."
  (not (eq (plist-get thing :enabled) :false)))

(defun edn-bridge-mcp--insert (server)
  "Insert the lines of SERVER."
  (let* ((start (point))
         (name (plist-get server :name))
         (state (edn-bridge-chat-word (plist-get server :state)))
         (tools (append (plist-get server :tools) nil))
         (open (member name edn-bridge-mcp--open)))
    (insert (if (edn-bridge-mcp--on-p server) "[x] " "[ ] ")
            (propertize (edn-bridge-visible-label name)
                        'face (if (edn-bridge-mcp--on-p server)
                                  'edn-bridge-mcp-server
                                'edn-bridge-muted))
            "  "
            (propertize (edn-bridge-visible-label (or state ""))
                        'face (edn-bridge-mcp--state-face state))
            (propertize
             (edn-bridge-visible-label
              (string-join
               (delq nil
                     (list "" (edn-bridge-mcp--count tools "tool")
                           (edn-bridge-mcp--count
                            (plist-get server :prompts) "prompt")
                           (edn-bridge-mcp--count
                            (plist-get server :resource-count) "resource")
                           (plist-get server :title)
                           (plist-get server :protocol-version)
                           (edn-bridge-mcp--source server)))
               "  "))
             'face 'edn-bridge-muted)
            "\n")
    (insert (propertize (concat "      " (edn-bridge-visible-label
                                          (or (plist-get server :target) "")))
                        'face 'edn-bridge-muted)
            "\n")
    (when-let ((why (plist-get server :last-error)))
      (insert (propertize (concat "      " (edn-bridge-visible-label why))
                          'face 'edn-bridge-mcp-wrong)
              "\n"))
    (put-text-property start (point) 'edn-bridge-mcp-server server)
    (when open
      (dolist (tool tools)
        (edn-bridge-mcp--insert-tool server tool))
      (seq-do (lambda (prompt)
                (edn-bridge-mcp--insert-row
                 server (concat "/" (plist-get prompt :name))
                 (plist-get prompt :description)))
              (plist-get server :prompts))
      (seq-do (lambda (resource)
                (edn-bridge-mcp--insert-row
                 server (format "@%s:%s" name (plist-get resource :uri))
                 (or (plist-get resource :description)
                     (plist-get resource :name))))
              (plist-get server :resources))
      (seq-do (lambda (problem)
                (edn-bridge-mcp--insert-row server problem nil 'edn-bridge-accent))
              (plist-get server :problems)))))

(defun edn-bridge-mcp--insert-tool (server tool)
  "Insert the line of TOOL of SERVER."
  (let ((start (point)))
    (insert "      " (if (edn-bridge-mcp--on-p tool) "[x] " "[ ] ")
            (propertize (edn-bridge-visible-label (or (plist-get tool :tool) ""))
                        'face (if (edn-bridge-mcp--on-p tool) 'default 'edn-bridge-muted))
            (propertize
             (concat (if (edn-bridge-edn-true-p (plist-get tool :read-only))
                         "  (only reads, it says)"
                       "")
                     "  "
                     (edn-bridge-visible-label
                      (or (plist-get tool :description) "")))
             'face 'edn-bridge-muted)
            "\n")
    (add-text-properties start (point)
                         (list 'edn-bridge-mcp-server server
                               'edn-bridge-mcp-tool tool))))

(defun edn-bridge-mcp--insert-row (server text about &optional face)
  "Insert a line of SERVER with TEXT in FACE, and ABOUT, or nil, after it."
  (let ((start (point)))
    (insert "      " (propertize (edn-bridge-visible-label text)
                                 'face (or face 'default))
            (propertize (if about
                            (concat "  " (edn-bridge-visible-label about))
                          "")
                        'face 'edn-bridge-muted)
            "\n")
    (put-text-property start (point) 'edn-bridge-mcp-server server)))

(defun edn-bridge-mcp--count (things word)
  "Return how many THINGS there are, with WORD, or nil if none."
  (let ((count (if (numberp things) things (length things))))
    (cond ((= count 0) nil)
          ((= count 1) (format "1 %s" word))
          (t (format "%d %ss" count word)))))

(defun edn-bridge-mcp--state-face (state)
  "Return the face of STATE."
  (pcase state
    ("ready" 'edn-bridge-mcp-ready)
    ((or "failed" "given-up" "refused" "needs-login") 'edn-bridge-mcp-wrong)
    (_ 'edn-bridge-muted)))

(defun edn-bridge-mcp--source (server)
  "Return where SERVER is configured, or nil where that is usual."
  (pcase (edn-bridge-chat-word (plist-get server :source))
    ("project" "of the project")
    ((or "client" "session") "of this session")))

;;;; Commands

(defun edn-bridge-mcp--server ()
  "Return the server at point, or say that there is none."
  (or (edn-bridge-mcp--at-point 'edn-bridge-mcp-server)
      (user-error "There is no server on this line")))

(defun edn-bridge-mcp-toggle ()
  "Switch the tool at point, or else the server, off or on for the session."
  (interactive nil edn-bridge-mcp-mode)
  (let* ((server (edn-bridge-mcp--server))
         (tool (edn-bridge-mcp--at-point 'edn-bridge-mcp-tool))
         (on (edn-bridge-mcp--on-p (or tool server))))
    (edn-bridge-mcp--ask
     "set_mcp"
     (append (list :server (plist-get server :name))
             (and tool (list :tool (plist-get tool :name)))
             (list :enabled (if on :false t)))
     #'edn-bridge-mcp--replace)))

(defun edn-bridge-mcp-restart ()
  "Start the server at point again, and tell what it offers or why it failed."
  (interactive nil edn-bridge-mcp-mode)
  (let ((name (plist-get (edn-bridge-mcp--server) :name)))
    (message "Starting %s ..." (edn-bridge-visible-label name))
    (cl-pushnew name edn-bridge-mcp--open :test #'equal)
    (edn-bridge-mcp--ask
     "restart_mcp" (list :server name)
     (lambda (data)
       (edn-bridge-mcp--replace data)
       (let ((server (plist-get data :server)))
         (message "%s: %s" (edn-bridge-visible-label name)
                  (edn-bridge-visible-label
                   (or (plist-get server :last-error)
                       (edn-bridge-chat-word (plist-get server :state))
                       ""))))))))

(defun edn-bridge-mcp--replace (data)
  "Show the server of DATA in place of what was known of it."
  (let ((server (plist-get data :server)))
    (setq edn-bridge-mcp--servers
          (mapcar (lambda (known)
                    (if (equal (plist-get known :name)
                               (plist-get server :name))
                        server
                      known))
                  edn-bridge-mcp--servers))
    (edn-bridge-mcp--show)))

(defun edn-bridge-mcp-fold ()
  "Show or hide what the server at point offers."
  (interactive nil edn-bridge-mcp-mode)
  (let ((name (plist-get (edn-bridge-mcp--server) :name)))
    (setq edn-bridge-mcp--open
          (if (member name edn-bridge-mcp--open)
              (remove name edn-bridge-mcp--open)
            (cons name edn-bridge-mcp--open)))
    (edn-bridge-mcp--show)))

(defun edn-bridge-mcp-next ()
  "Go to the next server."
  (interactive nil edn-bridge-mcp-mode)
  (edn-bridge-mcp--move 1))

(defun edn-bridge-mcp-previous ()
  "Go to the previous server."
  (interactive nil edn-bridge-mcp-mode)
  (edn-bridge-mcp--move -1))

(defun edn-bridge-mcp--move (step)
  "Go by lines of STEP to the first line of another server."
  (let ((from (car (edn-bridge-mcp--place)))
        (start (point)))
    (while (and (zerop (forward-line step))
                (not (eobp))
                (equal (car (edn-bridge-mcp--place)) from)))
    (if (or (eobp) (equal (car (edn-bridge-mcp--place)) from))
        (goto-char start)
      (let ((name (car (edn-bridge-mcp--place))))
        (while (and (not (bobp))
                    (save-excursion
                      (forward-line -1)
                      (equal (car (edn-bridge-mcp--place)) name)))
          (forward-line -1))))))

(defun edn-bridge-mcp-configure ()
  "Open the configuration that the server at point is in, or else the user's."
  (interactive nil edn-bridge-mcp-mode)
  (let* ((server (edn-bridge-mcp--at-point 'edn-bridge-mcp-server))
         (project (equal (edn-bridge-chat-word (plist-get server :source))
                         "project"))
         (chat edn-bridge-mcp--chat)
         (folder (buffer-local-value 'default-directory chat))
         (own (expand-file-name ".edn-bridge/config.edn" folder)))
    (if project
        (find-file own)
      (edn-bridge-mcp--ask
       "query_eql"
       '(:query "[{:psi.config/settings [:psi.config/key :psi.config/value]}]")
       (lambda (data)
         (let ((file (or (edn-bridge-mcp--user-file
                          (plist-get (plist-get data :result)
                                     :psi.config/settings))
                         (user-error "The bridge has no configuration file"))))
           ;; To open a file may ask something.
           (edn-bridge-rpc-later
            (lambda () (find-file (concat (file-remote-p folder) file))))))))))

(defun edn-bridge-mcp--user-file (settings)
  "Return the user's configuration file by SETTINGS of the bridge, or nil."
  (cl-loop for setting across (vconcat settings)
           for value = (plist-get setting :psi.config/value)
           when (and (equal (edn-bridge-chat-word
                             (plist-get setting :psi.config/key))
                            "config")
                     (stringp value))
           return value))

;;;; Completion in the draft

(defconst edn-bridge-mcp--kept-completions 50
  "How many answers of servers to completions are kept.")

(defun edn-bridge-mcp--complete (params)
  "Return the values that servers complete with PARAMS, or nil.
Servers may have to be started for it, so nothing waits for them: the
values are there when it is tried again, which a message says."
  (if-let ((known (assoc params edn-bridge-mcp--completions)))
      (cdr known)
    (let ((conn edn-bridge-chat--conn))
      (when (edn-bridge-rpc-live-p conn)
        (setq edn-bridge-mcp--completions
              (seq-take (cons (list params) edn-bridge-mcp--completions)
                        edn-bridge-mcp--kept-completions))
        (edn-bridge-rpc-request
         conn "complete_mcp" params
         :on-success
         (lambda (data)
           (edn-bridge-chat-with-buffer conn
             (edn-bridge-mcp--note-completion
              params (append (plist-get data :values) nil))))
         :on-error
         (lambda (_frame)
           (edn-bridge-chat-with-buffer conn
             (edn-bridge-mcp--note-completion params nil))))))
    nil))

(defun edn-bridge-mcp--note-completion (params values)
  "Note VALUES as the answer to PARAMS; without any, it is asked again."
  (setq edn-bridge-mcp--completions
        (assoc-delete-all params edn-bridge-mcp--completions))
  (when values
    (push (cons params values) edn-bridge-mcp--completions)
    (message "%d completions of the server; complete again to see them"
             (length values))))

(defun edn-bridge-mcp-complete-reference (text)
  "Return the references to resources that TEXT, without the @, may become."
  (and (string-match-p "\\`[A-Za-z0-9_-]+:" text)
       (edn-bridge-mcp--complete (list :reference text))))

(defun edn-bridge-mcp-complete-argument (words text)
  "Return what the argument TEXT of a server's prompt may become.
WORDS are the name of the prompt and the arguments before."
  (when-let* ((command (edn-bridge-complete-command (car words)))
              (names (edn-bridge-mcp--argument-names command))
              (name (nth (length (cdr words)) names)))
    (edn-bridge-mcp--complete
     (append
      (list :prompt (car words) :argument name :value text)
      (and (cdr words)
           (list :before
                 (cl-loop for (before . value)
                          in (cl-mapcar #'cons names (cdr words))
                          append (list (intern (concat ":" before)) value))))))))

(defun edn-bridge-mcp--argument-names (command)
  "Return the names of the arguments of COMMAND, a server's prompt, by its usage."
  (and (string-prefix-p "mcp__" (or (plist-get command :name) ""))
       (mapcar (lambda (word) (string-trim word "[][<>]+" "[][<>]+"))
               (cdr (split-string (or (plist-get command :usage) ""))))))

;;;; The names of servers

(defvar-local edn-bridge-mcp--names nil
  "Names of the servers that this chat's session uses.")

(defun edn-bridge-mcp-reference-names ()
  "Return what the references to resources can begin with."
  (mapcar (lambda (name) (concat name ":")) edn-bridge-mcp--names))

(defun edn-bridge-mcp--note-names (servers)
  "Note the names of those of SERVERS that are switched on."
  (setq edn-bridge-mcp--names
        (mapcar (lambda (server) (plist-get server :name))
                (seq-filter #'edn-bridge-mcp--on-p servers))))

(defun edn-bridge-mcp--fetch-names ()
  "Ask the bridge for the servers of this chat's session."
  (let ((conn edn-bridge-chat--conn))
    (edn-bridge-rpc-request
     conn "list_mcp" nil
     :on-success (lambda (data)
                   (edn-bridge-chat-with-buffer conn
                     (edn-bridge-mcp--note-names (plist-get data :servers))))
     :on-error #'ignore)))

(edn-bridge-complete-handle-servers #'edn-bridge-mcp-complete-argument
                                    #'edn-bridge-mcp-complete-reference
                                    #'edn-bridge-mcp-reference-names)

(add-hook 'edn-bridge-chat-ready-hook #'edn-bridge-mcp--fetch-names)
(edn-bridge-chat-handle "mcp/updated" #'edn-bridge-mcp--on-updated)
(edn-bridge-input-handle "mcp" #'edn-bridge-mcp)

(provide 'edn-bridge-mcp)

;;; edn-bridge-mcp.el ends here
