;;; edn-bridge-work.el --- What works and waits, anywhere  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; A daemon runs the sessions of all projects.  While a chat with one is
;; open, Emacs asks it every few seconds, on one connection, which sessions
;; work and which wait for an answer.  The mode line says which needs the
;; user, wherever that is; other files offer the others.
;;
;; Nothing global is touched before the first such chat, and after the last.

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'edn-bridge-chat)
(require 'edn-bridge-interact)

(defcustom edn-bridge-work-in-mode-line t
  "Whether the mode line says which session needs you, while a chat is open.
It concerns the sessions of a daemon, in every project."
  :type 'boolean
  :group 'edn-bridge)

(defvar edn-bridge-work-hook nil
  "Normal hook run in each chat buffer when it is known anew what works.")

(defconst edn-bridge-work--query
  (concat "[{:psi.process/at-work [:psi.at-work/session-id :psi.at-work/name"
          " :psi.at-work/cwd :psi.at-work/phase :psi.at-work/asks]}]")
  "Asks for what runs and what is waiting.")

(defconst edn-bridge-work--seconds 10
  "After how many seconds that is asked again.")

(cl-defstruct (edn-bridge-work (:copier nil))
  "A session that works or waits."
  id name
  folder                     ; as Emacs names it
  phase                      ; "streaming", say
  asks)                      ; kind of the question that waits, or nil

(defvar edn-bridge-work--list nil
  "What worked or waited when that was asked, an `edn-bridge-work' each.")

(defvar edn-bridge-work--timer nil
  "Timer that asks, or nil.")

(defvar edn-bridge-work--asked nil
  "The connection on which an answer is awaited, or nil.")

(defconst edn-bridge-work--mode-line '(:eval (edn-bridge-work--lighter))
  "What stands in `global-mode-string'.")

;;;; Public API

(defun edn-bridge-work-list ()
  "Return what works or waits in any project, an `edn-bridge-work' each."
  edn-bridge-work--list)

(defun edn-bridge-work-find (id)
  "Return what the session ID works or waits for, an `edn-bridge-work', or nil."
  (seq-find (lambda (work) (equal id (edn-bridge-work-id work)))
            edn-bridge-work--list))

(defun edn-bridge-work--name-of (id)
  "Return what the session ID is called, if that is known, or nil."
  (when-let ((work (edn-bridge-work-find id)))
    (edn-bridge-work-label work)))

(setq edn-bridge-interact-session-name-function #'edn-bridge-work--name-of)
(add-hook 'edn-bridge-work-hook #'edn-bridge-interact--announce-elsewhere)

(defun edn-bridge-work-label (work)
  "Return what the session of WORK is called, as one short line."
  (let ((name (edn-bridge-work-name work)))
    (if (member name '(nil ""))
        "A session"
      (truncate-string-to-width (edn-bridge-visible-label name)
                                40 nil nil "…"))))

(defun edn-bridge-work-state (work)
  "Return what WORK does, or what it waits for."
  (let ((asks (edn-bridge-work-asks work))
        (phase (edn-bridge-work-phase work)))
    (cond ((null asks)
           (if (member phase '("compacting" "retrying")) phase "running"))
          ((string-prefix-p "approve" asks) "waits for an approval")
          (t "waits for an answer"))))

(defun edn-bridge-work-chat (work)
  "Return the chat of this Emacs that is on the session of WORK, or nil."
  (seq-find (lambda (buffer)
              (equal (edn-bridge-work-id work)
                     (buffer-local-value 'edn-bridge-chat--session-id buffer)))
            (edn-bridge-chat-buffers)))

(defun edn-bridge-work-visit (work)
  "Go to the chat of WORK, opening one in its project if there is none."
  (pop-to-buffer
   (or (edn-bridge-work-chat work)
       (edn-bridge-chat-open
        (edn-bridge-work-folder work)
        (lambda ()
          (setq edn-bridge-chat--session-id (edn-bridge-work-id work))))))
  (when (> (edn-bridge-interact-pending) 0)
    (edn-bridge-interact-next)))

(defun edn-bridge-work--hidden-p (chat)
  "Return non-nil if no window shows the question that CHAT, or nil, has."
  (or (null chat)
      (with-current-buffer chat
        (if (> (edn-bridge-interact-pending) 0)
            (edn-bridge-interact-hidden-p)
          ;; The question is on its way.
          (not (get-buffer-window chat 'visible))))))

(defun edn-bridge-work-waiting ()
  "Return what is waiting for the user, the most urgent first.
That whose question is in view is left out."
  (seq-filter (lambda (work)
                (and (edn-bridge-work-asks work)
                     (edn-bridge-work--hidden-p (edn-bridge-work-chat work))))
              edn-bridge-work--list))

;;;; Asking

(defun edn-bridge-work--conn ()
  "Return a connection to a daemon, or nil."
  (seq-some (lambda (buffer)
              (let ((conn (buffer-local-value 'edn-bridge-chat--conn buffer)))
                (and (buffer-local-value 'edn-bridge-chat--outlives buffer)
                     (edn-bridge-rpc-ready-p conn)
                     conn)))
            (edn-bridge-chat-buffers)))

(defun edn-bridge-work-ask (&rest _)
  "Ask what runs and what is waiting, unless that is under way."
  (when-let ((conn (and (not (edn-bridge-rpc-live-p edn-bridge-work--asked))
                        (edn-bridge-work--conn))))
    (setq edn-bridge-work--asked conn)
    (edn-bridge-rpc-request
     conn "query_eql" (list :query edn-bridge-work--query)
     :on-success
     (lambda (data)
       (setq edn-bridge-work--asked nil)
       (let ((chat (edn-bridge-rpc-connection-context conn)))
         (when (buffer-live-p chat)
           (edn-bridge-work--note
            (file-remote-p (buffer-local-value 'default-directory chat))
            (plist-get (plist-get data :result) :psi.process/at-work)))))
     ;; An older program does not know that.
     :on-error (lambda (_frame) (setq edn-bridge-work--asked nil)))))

(defun edn-bridge-work--note (host rows)
  "Take note of ROWS, what works and waits on HOST, or nil."
  (let ((old edn-bridge-work--list))
    (setq edn-bridge-work--list
          (mapcar (lambda (row)
                    (make-edn-bridge-work
                     :id (plist-get row :psi.at-work/session-id)
                     :name (plist-get row :psi.at-work/name)
                     :folder (file-name-as-directory
                              (concat host (plist-get row :psi.at-work/cwd)))
                     :phase (edn-bridge-chat-word
                             (plist-get row :psi.at-work/phase))
                     :asks (edn-bridge-chat-word
                            (plist-get row :psi.at-work/asks))))
                  rows))
    (dolist (buffer (edn-bridge-chat-buffers))
      (with-current-buffer buffer
        (run-hooks 'edn-bridge-work-hook)))
    (unless (equal old edn-bridge-work--list)
      (force-mode-line-update t))))

;;;; The mode line

(defvar edn-bridge-work--map
  (let ((map (make-sparse-keymap)))
    (define-key map [mode-line mouse-1] #'edn-bridge-attention-next)
    map)
  "Keymap on what stands in the mode line.")

(declare-function edn-bridge-attention-next "edn-bridge-attention")

(defun edn-bridge-work--lighter ()
  "Return what the mode line shows: the session that needs the user."
  (let ((waiting (and edn-bridge-work-in-mode-line
                      edn-bridge-work--list
                      (edn-bridge-work-waiting))))
    (if (null waiting)
        ""
      (list
       " "
       (propertize
        (replace-regexp-in-string
         "%" "%%"
         (format "[edn: %s?%s]"
                 (edn-bridge-work-label (car waiting))
                 (if (cdr waiting)
                     (format " +%d" (length (cdr waiting)))
                   "")))
        'face 'edn-bridge-work
        'mouse-face 'mode-line-highlight
        'help-echo (format "In %s, this %s; mouse-1 goes there"
                           (abbreviate-file-name
                            (edn-bridge-work-folder (car waiting)))
                           (edn-bridge-work-state (car waiting)))
        'local-map edn-bridge-work--map)))))

(defun edn-bridge-work--begin ()
  "Where this chat is with a daemon, ask it now and again."
  (when edn-bridge-chat--outlives
    (unless edn-bridge-work--timer
      (setq edn-bridge-work--timer
            (run-at-time edn-bridge-work--seconds edn-bridge-work--seconds
                         #'edn-bridge-work-ask))
      (unless (listp global-mode-string)
        (setq global-mode-string (list global-mode-string)))
      (setq global-mode-string
            (append (or global-mode-string '(""))
                    (list edn-bridge-work--mode-line))))
    (edn-bridge-work-ask)))

(defun edn-bridge-work--end ()
  "Where this chat, which is being killed, is the last one, ask no more."
  (when (and edn-bridge-work--timer
             (null (delq (current-buffer) (edn-bridge-chat-buffers))))
    (cancel-timer edn-bridge-work--timer)
    (setq edn-bridge-work--timer nil
          edn-bridge-work--asked nil
          edn-bridge-work--list nil
          global-mode-string (if (listp global-mode-string)
                                 (delete edn-bridge-work--mode-line
                                         global-mode-string)
                               global-mode-string))
    (force-mode-line-update t)))

(defun edn-bridge-work--setup ()
  "Have the asking end with the last chat."
  (add-hook 'kill-buffer-hook #'edn-bridge-work--end nil t))

(add-hook 'edn-bridge-chat-mode-hook #'edn-bridge-work--setup)
(add-hook 'edn-bridge-chat-ready-hook #'edn-bridge-work--begin)
(add-hook 'edn-bridge-chat-turn-end-hook #'edn-bridge-work-ask)
(add-hook 'edn-bridge-interact-functions #'edn-bridge-work-ask)

(provide 'edn-bridge-work)

;;; edn-bridge-work.el ends here
