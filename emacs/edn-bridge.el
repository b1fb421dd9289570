;;; edn-bridge.el --- Chat with a coding agent over EDN lines  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;; Version: 0.1.0
;; Package-Requires: ((emacs "28.1"))
;; Keywords: tools, processes, convenience

;;; Commentary:

;; The Emacs frontend of edn-bridge, a program that runs the sessions of a
;; coding agent and is spoken to in lines of EDN.
;;
;;   M-x edn-bridge            the chat of the current project
;;   M-x edn-bridge-ask-region a question about the region
;;   M-x edn-bridge-query      questions to the session in EQL
;;   M-x edn-bridge-log        the wire log of a connection
;;   M-x edn-bridge-daemon     what runs when no chat is open
;;   M-x edn-bridge-doctor     what is wrong, and what to do
;;
;; The program is found by `edn-bridge-program'.  README.md is the manual.
;;
;; The files, each using only those before it:
;;
;;   -constants            names of the protocol, generated
;;   -edn                  reader and printer
;;   -rpc                  process, requests, events; a library
;;   -program              where the program is, and how it is built
;;   -faces                all faces, with colours that can be read
;;   -settings             provider, model, agent and mode of a project
;;   -visible              codes for characters that are not seen
;;   -view                 modes of buffers that show something
;;   -transcript           the parts of a chat buffer's text
;;   -markdown-inline      faces of markdown within a line
;;   -markdown-table       tables, laid out for the window
;;   -markdown-code        code blocks, with the faces of their language
;;   -markdown             faces for markdown as it streams in
;;   -chat-state           what a chat knows, and who shows its events
;;   -chat-place           how much of its session a chat shows
;;   -chat-header          the header line and the footer
;;   -chat                 the chat buffer and its connection
;;   -messages             the messages, streaming and from the journal
;;   -said                 what is sent, waits and is delivered
;;   -complete             choosing, and completion in the draft
;;   -input                sending, aborting, history
;;   -queue                the queue: edited, moved, taken back
;;   -diff                 diffs, with the colours of their files
;;   -tools-output         outputs and diffs, bounded and whole
;;   -tools                tool calls
;;   -shell                commands of the user, in the draft
;;   -follow               what a chat missed while it was away
;;   -buffers              buffers follow the files that are changed
;;   -files                the agent works on the buffers of open files
;;   -undo                 undo and redo of what turns did to files
;;   -ediff                a proposed change, with Ediff
;;   -interact             questions of the agent
;;   -interact-kinds       what each kind of them shows
;;   -work                 what works and waits, in any project
;;   -actions -attention -models -auth -trust -rules -mcp -sessions -tree -chats -jobs
;;                         what hangs on the chat
;;   -side                 questions beside the chat
;;   -ask -add -rewrite -context -hands -hands-tools -query -log -daemon -doctor -batch -usage
;;                         what stands beside it
;;   edn-bridge            the entry, and the keys together

;;; Code:

(require 'easymenu)
(require 'project)
(require 'edn-bridge-view)
(require 'edn-bridge-chat)
(require 'edn-bridge-messages)
(require 'edn-bridge-said)
(require 'edn-bridge-complete)
(require 'edn-bridge-input)
(require 'edn-bridge-queue)
(require 'edn-bridge-tools)
(require 'edn-bridge-shell)
(require 'edn-bridge-follow)
(require 'edn-bridge-buffers)
(require 'edn-bridge-files)
(require 'edn-bridge-undo)
(require 'edn-bridge-interact)
(require 'edn-bridge-interact-kinds)
(require 'edn-bridge-actions)
(require 'edn-bridge-work)
(require 'edn-bridge-attention)
(require 'edn-bridge-sessions)
(require 'edn-bridge-agents)
(require 'edn-bridge-models)
(require 'edn-bridge-auth)
(require 'edn-bridge-trust)
(require 'edn-bridge-rules)
(require 'edn-bridge-mcp)
(require 'edn-bridge-tree)
(require 'edn-bridge-chats)
(require 'edn-bridge-jobs)
(require 'edn-bridge-side)
(require 'edn-bridge-ask)
(require 'edn-bridge-add)
(require 'edn-bridge-rewrite)
(require 'edn-bridge-context)
(require 'edn-bridge-hands)
(require 'edn-bridge-hands-tools)
(require 'edn-bridge-query)
(require 'edn-bridge-log)
(require 'edn-bridge-daemon)
(require 'edn-bridge-doctor)
(require 'edn-bridge-usage)
(require 'edn-bridge-drafts)
(require 'edn-bridge-batch)

;;;; Opening a chat

(defun edn-bridge-directory ()
  "Return the folder that a chat started here is about.
It is the root of the project, or else `default-directory'."
  ;; Else project.el evaluates .dir-locals.el, which a command of an agent
  ;; may have written.
  (let ((project (let ((enable-dir-local-variables nil)) (project-current))))
    (file-name-as-directory
     (expand-file-name
      (if project (project-root project) default-directory)))))

;;;###autoload
(defun edn-bridge (&optional new)
  "Go to the chat of the current project, opening it if there is none.
With a prefix argument NEW, open another one."
  (interactive "P")
  (let ((buffer (edn-bridge-chat-buffer new)))
    (pop-to-buffer-same-window buffer)
    buffer))

(defun edn-bridge-chat-buffer (&optional new)
  "Return the chat buffer of the current project.
Where there is none, or with NEW non-nil, open one; it is connecting then."
  (let ((directory (edn-bridge-directory)))
    (or (and (not new)
             (car (edn-bridge-chat-buffers directory)))
        (edn-bridge--open directory new))))

(defun edn-bridge--open (directory new)
  "Return a new chat buffer of DIRECTORY, which is connecting.
With NEW non-nil, its session is to be a new one."
  (edn-bridge-chat-open
   directory
   (lambda () (setq edn-bridge-sessions-fresh (if new 'new t)))))

;;;; A side window

(defcustom edn-bridge-side-window-width 0.35
  "How wide the side window of `edn-bridge-toggle' is.
A fraction of the frame's width, or a number of columns."
  :type 'number
  :group 'edn-bridge)

;;;###autoload
(defun edn-bridge-toggle ()
  "Show the chat of the current project in a side window, or hide it."
  (interactive)
  (let* ((buffer (if (edn-bridge-chat-buffer-p (current-buffer))
                     (current-buffer)
                   (edn-bridge-chat-buffer)))
         (window (get-buffer-window buffer)))
    (cond
     ((not window)
      (select-window
       (display-buffer-in-side-window
        buffer `((side . right)
                 (window-width . ,edn-bridge-side-window-width)))))
     ((window-parameter window 'window-side)
      (delete-window window))
     (t
      (quit-restore-window window 'bury)))))

;;;; Keys for other buffers

(defvar edn-bridge-command-map
  (let ((map (make-sparse-keymap)))
    (pcase-dolist (`(,key ,label ,command)
                   '(("c" "chat" edn-bridge)
                     ("t" "side window" edn-bridge-toggle)
                     ("n" "who needs me" edn-bridge-attention-next)
                     ("l" "all sessions" edn-bridge-chats)
                     ("a" "ask about region" edn-bridge-ask-region)
                     ("r" "add region" edn-bridge-add-region)
                     ("e" "add error" edn-bridge-add-error)
                     ("f" "add file" edn-bridge-add-file)
                     ("i" "add image" edn-bridge-add-image)
                     ("s" "add what is at point" edn-bridge-add-at-point)
                     ("o" "add shell output" edn-bridge-add-output)
                     ("p" "add screenshot" edn-bridge-add-screenshot)
                     ("x" "explain" edn-bridge-explain)
                     ("F" "fix" edn-bridge-fix)
                     ("w" "rewrite region" edn-bridge-rewrite-region)
                     ("q" "quick question" edn-bridge-quick)
                     ("m" "commit message" edn-bridge-commit-message)
                     ("d" "doctor" edn-bridge-doctor)))
      ;; The label is for packages that show what may follow a key.
      (define-key map key (cons label command)))
    map)
  "Keymap of the commands for other buffers.
It is on no key by itself: bind it to one that you like.")

;;;###autoload (autoload 'edn-bridge-command-map "edn-bridge" nil nil 'keymap)
(fset 'edn-bridge-command-map edn-bridge-command-map)

;;;; Help

(defun edn-bridge--show-hint ()
  "Where nothing was said in this chat yet, show how to begin."
  (edn-bridge-chat-set-status
   'edn-bridge
   (and (= (point-min) (edn-bridge-transcript-end))
        (mapcar
         #'edn-bridge-faces-keys
         (if edn-bridge-input-return-sends
             '("RET sends what you write below, C-j breaks the line, \\[edn-bridge-menu] shows all commands")
           '("\\[edn-bridge-input-send] sends what you write below, \\[edn-bridge-menu] shows all commands"
             "`edn-bridge-input-return-sends' has RET send"))))))

(defun edn-bridge--hide-hint (&rest _)
  "Show no more how to begin: the user has."
  (edn-bridge-chat-set-status 'edn-bridge nil))

(add-hook 'edn-bridge-chat-ready-hook #'edn-bridge--show-hint)
(add-hook 'edn-bridge-input-send-hook #'edn-bridge--hide-hint)
(edn-bridge-chat-handle "user/message" #'edn-bridge--hide-hint)
(edn-bridge-chat-handle "command-result" #'edn-bridge--hide-hint)

;; The labels of the first menu are short, so that its three columns fit a
;; frame of 60; a test looks at the menu as a person does.
(defconst edn-bridge--menu
  '(("Talk" ("c")
     ("RET" edn-bridge-input-send "send")
     ("Q" edn-bridge-input-queue "queue")
     ("W" edn-bridge-queue-go-to "go to queue")
     ("L" edn-bridge-queue-resume "resume queue")
     ("h" edn-bridge-input-search "input history")
     ("I" edn-bridge-add-image "add an image")
     ("'" edn-bridge-compose "compose")
     ("D" edn-bridge-context-toggle "context"))
    ("Turn" ("u")
     ("k" edn-bridge-input-abort "abort")
     ("i" edn-bridge-input-interrupt "interrupt")
     ("A" edn-bridge-input-retry "retry")
     ("G" edn-bridge-input-continue "continue")
     ("z" edn-bridge-undo "undo changes")
     ("Z" edn-bridge-redo "redo changes"))
    ("Answer and look" nil
     ("a" edn-bridge-interact-next "next question")
     ("y" edn-bridge-interact-accept "approve")
     ("p" edn-bridge-models-set-mode "permissions")
     ("t" edn-bridge-tools-toggle "fold or unfold")
     ("M" edn-bridge-markdown-toggle-markup "show markup"))
    ("Session" "s"
     ("s" edn-bridge-sessions-switch "switch")
     ("w" edn-bridge-tree "tree")
     ("b" edn-bridge-sessions-continue "continue the last")
     ("R" edn-bridge-sessions-read "read another")
     ("n" edn-bridge-sessions-new "new")
     ("B" edn-bridge-agents-new "new, external agent")
     ("f" edn-bridge-sessions-fork "fork at point")
     ("E" edn-bridge-sessions-edit "edit and send again")
     ("N" edn-bridge-sessions-rename "rename")
     ("X" edn-bridge-sessions-delete "delete")
     ("H" edn-bridge-sessions-archive "archive")
     ("Y" edn-bridge-sessions-take "take over")
     ("x" edn-bridge-sessions-export "export")
     ("C" edn-bridge-sessions-copy-transcript "copy the transcript")
     ("r" edn-bridge-chat-reconnect "reconnect"))
    ("Model and agent" "m"
     ("m" edn-bridge-models-choose "model")
     ("v" edn-bridge-models-cycle "next model")
     ("l" edn-bridge-models-think "thinking level")
     ("P" edn-bridge-agents-set-option "options of the agent")
     ("c" edn-bridge-models-compact "compact")
     ("u" edn-bridge-models-show-stats "usage")
     ("U" edn-bridge-usage "usage over time"))
    ("View" "v"
     ("K" edn-bridge-chats "all sessions")
     ("j" edn-bridge-jobs "jobs")
     ("o" edn-bridge-rules "rules")
     ("O" edn-bridge-audit "audit")
     ("S" edn-bridge-mcp "MCP servers")
     ("T" edn-bridge-trust "trust this project")
     ("e" edn-bridge-query "query in EQL")
     ("g" edn-bridge-log "wire log")
     ("d" edn-bridge-doctor "doctor")))
  "The commands of a chat, in groups.
A group is a list of a title, the key of the menu that it has to itself (nil
for a group of the first menu, a list of the key for one that has a menu to
itself in narrow frames), and commands: key, command and label.")

(defconst edn-bridge--menu-quit '("q" transient-quit-one "quit")
  "The last row of each menu that is shown.")

(declare-function transient-prefix "transient")

(defvar edn-bridge--menu-made nil
  "What frames the menu was made for: `wide', `narrow', or nil if it was not.")

(defun edn-bridge-menu ()
  "Show the commands of a chat, to be chosen by a key."
  (interactive nil edn-bridge-chat-mode)
  (if (and (require 'transient nil t)
           (edn-bridge--define-transient))
      (call-interactively 'edn-bridge--transient)
    (edn-bridge--help)))

(defun edn-bridge--define-transient ()
  "Define the transients of `edn-bridge-menu'; return nil if that fails."
  (let ((made (if (< (frame-width) 60) 'narrow 'wide)))
    (or (eq made edn-bridge--menu-made)
        (ignore-errors
          (pcase-dolist (`(,title ,key . ,rows) edn-bridge--menu)
            (when key
              (eval `(transient-define-prefix ,(edn-bridge--submenu title) ()
                       ,(format "The commands of a chat: %s." title)
                       [,@(edn-bridge--menu-halves
                           title (append rows (list edn-bridge--menu-quit))
                           (eq made 'narrow))])
                    t)))
          (eval `(transient-define-prefix edn-bridge--transient ()
                   "The commands of a chat."
                   [,@(edn-bridge--menu-groups (eq made 'narrow))])
                t)
          (setq edn-bridge--menu-made made)
          t))))

(defun edn-bridge--submenu (title)
  "Return the name of the command that shows the menu TITLE."
  (intern (concat "edn-bridge--transient-"
                  (replace-regexp-in-string " " "-" (downcase title)))))

(defun edn-bridge--menu-suffixes (rows)
  "Return ROWS of a group as suffixes of a transient."
  (mapcar (pcase-lambda (`(,key ,command ,text)) (list key text command))
          rows))

(defun edn-bridge--menu-halves (title rows narrow)
  "Return the columns of the menu TITLE with ROWS: two of a long one.
With NARROW, there is one column."
  (let ((half (if (or narrow (< (length rows) 10))
                  (length rows)
                (/ (1+ (length rows)) 2))))
    (cons (vconcat (list title)
                   (edn-bridge--menu-suffixes (seq-take rows half)))
          (when-let ((rest (seq-drop rows half)))
            (list (vconcat (list "") (edn-bridge--menu-suffixes rest)))))))

(defun edn-bridge--menu-groups (narrow)
  "Return the groups of the first menu, the last of which opens the others.
With NARROW, it has one column."
  (let ((more nil)
        (groups nil))
    (pcase-dolist (`(,title ,key . ,rows) edn-bridge--menu)
      (let ((key (if (consp key) (and narrow (car key)) key)))
        (if key
            (push (list key (concat title "…") (edn-bridge--submenu title))
                  more)
          (push (cons title (edn-bridge--menu-suffixes rows)) groups))))
    (mapcar #'vconcat
            (reverse (cons (append (car groups) (reverse more)
                                   (edn-bridge--menu-suffixes
                                    (list edn-bridge--menu-quit)))
                           (cdr groups))))))

(defun edn-bridge--help ()
  "Show the commands of a chat in a help buffer."
  (let ((chat (current-buffer)))
    (with-help-window "*edn-bridge help*"
      (with-current-buffer standard-output
        (pcase-dolist (`(,title ,_key . ,rows) edn-bridge--menu)
          (insert (propertize title 'face 'edn-bridge-title) "\n")
          (pcase-dolist (`(,_key ,command ,text) rows)
            (insert (format "  %-12s %s\n"
                            (with-current-buffer chat
                              (edn-bridge-faces-keys
                               (format "\\[%s]" command)))
                            text)))
          (insert "\n"))))))

;;;; The menu bar and the mouse

(defun edn-bridge--menu-items ()
  "Return the commands of a chat as the items of a menu."
  (mapcar (pcase-lambda (`(,title ,_key . ,rows))
            (cons title
                  (mapcar (pcase-lambda (`(,_key ,command ,text))
                            (vector (concat (upcase (substring text 0 1))
                                            (substring text 1))
                                    command t))
                          rows)))
          edn-bridge--menu))

(easy-menu-define edn-bridge--menu-bar edn-bridge-chat-mode-map
  "The commands of a chat."
  (cons "Chat" (edn-bridge--menu-items)))

(defun edn-bridge--context-menu (menu _click)
  "Add the commands of a chat to MENU, which the mouse shows."
  (define-key-after menu [edn-bridge-separator] menu-bar-separator)
  (define-key-after menu [edn-bridge]
    (list 'menu-item "Chat" edn-bridge--menu-bar))
  menu)

(defun edn-bridge--set-context-menu ()
  "Have the menu of the mouse show the commands of this chat."
  (add-hook 'context-menu-functions #'edn-bridge--context-menu 10 t))

(add-hook 'edn-bridge-chat-mode-hook #'edn-bridge--set-context-menu)

(let ((map edn-bridge-chat-mode-map))
  (define-key map (kbd "C-c ?") #'edn-bridge-menu)
  (define-key map (kbd "C-c C-l") #'edn-bridge-log)
  ;; Labels, for packages that show what may follow a key.
  (pcase-dolist (`(,_title ,_key . ,rows) edn-bridge--menu)
    (pcase-dolist (`(,_key ,command ,text) rows)
      (dolist (key (where-is-internal command (list map)))
        (define-key map key (cons text command))))))

(provide 'edn-bridge)

;;; edn-bridge.el ends here
